/** Whoever reaches a node's port without the fleet's secret: it learns nothing, costs little and is soon gone. */
import { afterEach, describe, expect, it } from "vitest";
import { type Channel, STRANGER_BYTES_MAX } from "../../src/links/contract.js";
import { encodeFrame, FRAME } from "../../src/links/frames.js";
import { deferred } from "../../src/world/deferred.js";
import { RealStage, SimulatedStage, type Stage, type StageNode, tapped } from "./stage.js";

/** One end of a channel in the hands of somebody who says what he likes. */
class Raw {
  readonly #received: Uint8Array[] = [];
  readonly #closed = deferred<string>();
  #waiting = deferred();
  channel: Channel | undefined;

  readonly events = {
    message: (message: Uint8Array): void => {
      this.#received.push(Uint8Array.from(message));
      this.#waiting.resolve();
      this.#waiting = deferred();
    },
    closed: (reason: string): void => this.#closed.resolve(reason),
  };

  static async to(stage: Stage, address: string, name = "mallory"): Promise<Raw> {
    const raw = new Raw();
    raw.channel = await stage.until(stage.stranger(name).connect(address, raw.events, 2_000));
    return raw;
  }

  send(message: Uint8Array): void {
    this.channel?.send(message);
  }

  get closed(): Promise<string> {
    return this.#closed.promise;
  }

  /** How many messages came. */
  get count(): number {
    return this.#received.length;
  }

  async received(index: number): Promise<Uint8Array> {
    for (;;) {
      const message = this.#received[index];
      if (message !== undefined) return message;
      await this.#waiting.promise;
    }
  }
}

const STAGES: readonly (readonly [string, () => SimulatedStage | RealStage])[] = [
  ["a simulated network", () => new SimulatedStage()],
  ["WebSockets", () => new RealStage()],
];

describe.each(STAGES)("a stranger over %s", (_name, makeStage) => {
  let stage: Stage;
  let heeded: unknown[];
  afterEach(() => stage.stop());

  async function victim(set = {}): Promise<StageNode> {
    stage = makeStage();
    heeded = [];
    return stage.node("two", { set, prepare: (links) => links.handle("note", (body) => heeded.push(body)) });
  }

  it("that sends garbage is closed without an answer", async () => {
    const two = await victim();
    const raw = await Raw.to(stage, two.address);
    raw.send(new Uint8Array([1, 2, 3]));
    await stage.until(raw.closed);
    expect(raw.count).toBe(0);
  });

  it("that sends more than a few kilobytes is closed, in one message or in many", async () => {
    const two = await victim();
    const raw = await Raw.to(stage, two.address);
    raw.send(new Uint8Array(2 * STRANGER_BYTES_MAX));
    await stage.until(raw.closed);
    const other = await Raw.to(stage, two.address);
    for (let part = 0; part < 10; part++) other.send(new Uint8Array(STRANGER_BYTES_MAX / 4));
    await stage.until(other.closed);
    expect([raw.count, other.count]).toEqual([0, 0]);
  });

  it("that says nothing is closed after LINK_CONNECT_MS, and so is one that does not prove itself", async () => {
    const two = await victim({ LINK_CONNECT_MS: 100 });
    const silent = await Raw.to(stage, two.address);
    const half = await Raw.to(stage, two.address);
    half.send(await helloOf(two));
    await stage.until(half.received(0));
    await stage.until(Promise.all([silent.closed, half.closed]));
    expect([silent.count, half.count]).toEqual([0, 1]);
  });

  it("that goes on with requests instead of a proof is closed, and nothing is heeded", async () => {
    const two = await victim();
    const raw = await Raw.to(stage, two.address);
    raw.send(await helloOf(two));
    raw.send(encodeFrame([FRAME.request, 1, "note", "forged"]));
    await stage.until(raw.closed);
    expect(heeded).toEqual([]);
  });

  it("that replays what a node said is closed after the challenge", async () => {
    const two = await victim();
    const said = await handshakeOf(two);
    expect(heeded).toEqual(["true"]);
    const raw = await Raw.to(stage, two.address);
    for (const message of said) raw.send(message);
    await stage.until(raw.closed);
    expect([heeded, raw.count]).toEqual([["true"], 1]);
  });

  it("does not keep a node out, however many of them there are", async () => {
    const two = await victim({ LINK_CONNECT_MS: 600_000 });
    const crowd: Raw[] = [];
    for (let count = 0; count < 300; count++) crowd.push(await Raw.to(stage, two.address));
    // Those that were first had to go.
    await stage.until(Promise.all(crowd.slice(0, 44).map(({ closed }) => closed)));
    const one = await stage.node("one");
    expect(await stage.until(one.links.request(two, "note", "true"))).toBe(1);
    if (stage instanceof SimulatedStage) expect(stage.time.nowMs).toBeLessThan(600_000);
    for (const { channel } of crowd) channel?.close("done");
  });

  it("at a node's address is refused, whatever it answers, and hears no request", async () => {
    stage = makeStage();
    const hears: Raw[] = [];
    const answers = [new Uint8Array([7]), new Uint8Array(3 * STRANGER_BYTES_MAX)];
    const listening = await stage.stranger("two").listen((channel) => {
      const raw = new Raw();
      raw.channel = channel;
      const answer = answers[hears.length];
      void raw.received(0).then(() => answer && raw.send(answer));
      hears.push(raw);
      return raw.events;
    });
    const ask = async (name: string): Promise<unknown> => {
      const one = await stage.node(name, { set: { LINK_CONNECT_MS: 100 } });
      const asked = one.links.request({ node: "two", address: listening.address }, "note", "secret");
      return stage.until(asked.catch((error) => error.code));
    };
    expect(await ask("one")).toBe("link_refused");
    // Whether the network or the handshake says so first.
    expect(["link_refused", "node_unreachable"]).toContain(await ask("three"));
    // This time nothing is answered.
    expect(await ask("four")).toBe("node_unreachable");
    expect(hears.map(({ count }) => count)).toEqual([1, 1, 1]);
    await stage.until(listening.close());
  });

  /** All that a node says to make a link and ask something. */
  async function handshakeOf(to: StageNode): Promise<Uint8Array[]> {
    const said: Uint8Array[] = [];
    const network = tapped(stage.stranger("one"), (way, message) => {
      if (way === "sent") said.push(Uint8Array.from(message));
    });
    const one = await stage.node("one", { network });
    await stage.until(one.links.request(to, "note", "true"));
    await stage.until(one.links.stop());
    heeded.splice(1);
    return said;
  }

  async function helloOf(to: StageNode): Promise<Uint8Array> {
    const [hello] = await handshakeOf(to);
    heeded.length = 0;
    return hello as Uint8Array;
  }
});
