/**
 * A network of the drill's own: each node in a namespace, all on one bridge, so that what one node sends another can be lost while
 * the way back stays open. It stands in the drill's own namespace, and ends with it.
 */
import { execFileSync } from "node:child_process";
import net from "node:net";
import { assertApart } from "./apart.js";
import { NAMES } from "./fleet.js";

/** Of a range that is set aside for such networks (RFC 2544). */
const SUBNET = "198.18.77";
const HUB = `${SUBNET}.1`;
const BRIDGE = "bridge";
/** Nobody has it: what is sent there is lost without a word. */
const NOBODY = "02:00:00:00:00:99";

export class DrillNetwork {
  readonly #forwards: net.Server[] = [];
  readonly #connections = new Set<net.Socket>();
  readonly #cuts = new Map<string, () => void>();

  /** One a run. @throws Error saying why there can be none here */
  constructor() {
    assertApart();
    run("ip", "link", "add", BRIDGE, "type", "bridge");
    run("ip", "addr", "add", `${HUB}/24`, "dev", BRIDGE);
    run("ip", "link", "set", BRIDGE, "up");
    for (const name of NAMES) this.#add(name);
  }

  addressOf(name: string): string {
    return `${SUBNET}.${11 + (NAMES as readonly string[]).indexOf(name)}`;
  }

  /** What a process is started with in front to be in the node's namespace. */
  enter(name: string): readonly string[] {
    return ["ip", "netns", "exec", name];
  }

  /** Makes a port of the drill's loopback reachable from the namespaces. @returns the address there */
  async forward(port: number): Promise<string> {
    const server = net.createServer((near) => {
      const far = net.connect(port, "127.0.0.1");
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#connections.add(socket);
        socket.on("close", () => {
          this.#connections.delete(socket);
          other.destroy();
        });
        socket.on("error", () => {});
      }
      near.pipe(far).pipe(near);
    });
    this.#forwards.push(server);
    await new Promise<void>((resolve) => server.listen(0, HUB, resolve));
    return `${HUB}:${(server.address() as net.AddressInfo).port}`;
  }

  /** From now on nothing that `from` sends reaches `to`, another node or the bucket; the way back stays open. */
  cut(from: string, to: string): void {
    const address = to === "bucket" ? HUB : this.addressOf(to);
    const neighbour = (...words: string[]): void => run("ip", "-n", from, "neigh", ...words);
    neighbour("replace", address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent");
    this.#cuts.set(`${from} ${to}`, () => neighbour("del", address, "dev", "eth0"));
  }

  heal(): void {
    for (const heal of this.#cuts.values()) heal();
    this.#cuts.clear();
  }

  /** Nothing of this process leans on it any more. */
  close(): void {
    for (const server of this.#forwards) server.close();
    for (const socket of this.#connections) socket.destroy();
  }

  /** A namespace of the node's name. */
  #add(name: string): void {
    run("ip", "netns", "add", name);
    run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name);
    run("ip", "link", "set", name, "master", BRIDGE, "up");
    run("ip", "-n", name, "addr", "add", `${this.addressOf(name)}/24`, "dev", "eth0");
    run("ip", "-n", name, "link", "set", "eth0", "up");
    run("ip", "-n", name, "link", "set", "lo", "up");
  }
}

function run(program: string, ...words: string[]): void {
  execFileSync(program, words, { stdio: "pipe" });
}
