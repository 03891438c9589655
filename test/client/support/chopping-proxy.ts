/** A TCP proxy that cuts its connections, in either direction and in the middle of whatever passes. */
import net from "node:net";
import { onTestFinished } from "vitest";
import type { SeededRandom } from "../../../src/testing/seeded-random.js";

export class ChoppingProxy {
  readonly url: string;
  /** A connection is cut once about so many bytes have gone through; 0: never. */
  #bytesMean = 0;
  cuts = 0;
  readonly #random: SeededRandom;
  readonly #sockets = new Set<net.Socket>();

  private constructor(server: net.Server, targetPort: number, random: SeededRandom) {
    this.#random = random;
    this.url = `ws://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
    server.on("connection", (near) => this.#join(near, net.connect(targetPort, "127.0.0.1")));
    onTestFinished(() => {
      this.cutAll();
      server.close();
    });
  }

  static async start(targetPort: number, random: SeededRandom): Promise<ChoppingProxy> {
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ChoppingProxy(server, targetPort, random);
  }

  chop(bytesMean: number): void {
    this.#bytesMean = bytesMean;
  }

  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(near: net.Socket, far: net.Socket): void {
    let left = this.#bytesMean === 0 ? Number.POSITIVE_INFINITY : this.#bytesMean * 2 * this.#random.fraction();
    const cut = (): void => {
      near.destroy();
      far.destroy();
    };
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        this.#sockets.delete(from);
        cut();
      });
      from.on("data", (part) => {
        // What was passed on before the cut still arrives: the other side may have acted on it.
        to.write(part.subarray(0, Math.floor(left)));
        left -= part.length;
        if (left > 0) return;
        this.cuts++;
        left = Number.POSITIVE_INFINITY;
        to.end();
        from.destroy();
      });
    }
  }
}
