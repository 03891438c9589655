/** The simulated network itself: a seed makes one history, and a channel keeps its order through every fault. */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Channel, ChannelEvents } from "../../src/links/contract.js";
import { SimulatedNetwork } from "../../src/testing/simulated-network.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";

const SILENT: ChannelEvents = { message() {}, closed() {} };

type Step =
  | { readonly do: "send"; readonly byAcceptor: boolean }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "cut"; readonly oneWay: boolean; readonly back: boolean }
  | { readonly do: "heal" }
  | { readonly do: "reset" }
  | { readonly do: "kill"; readonly silently: boolean };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: fc.record({ do: fc.constant("send" as const), byAcceptor: fc.boolean() }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.nat(10) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cut" as const), oneWay: fc.boolean(), back: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ do: "heal" as const }) },
  { weight: 1, arbitrary: fc.constant({ do: "reset" as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("kill" as const), silently: fc.boolean() }) },
);

interface Heard {
  readonly numbers: number[];
  closed: number;
}

/** What both ends heard, in the order of hearing. */
async function history(seed: number, steps: readonly Step[]): Promise<string[]> {
  const time = new VirtualTime();
  const network = new SimulatedNetwork(time, { seed, latencyMs: { min: 1, max: 9 } });
  const told: string[] = [];
  const heard: Record<"dialler" | "acceptor", Heard> = {
    dialler: { numbers: [], closed: 0 },
    acceptor: { numbers: [], closed: 0 },
  };
  const listener = (end: "dialler" | "acceptor"): ChannelEvents => ({
    message(message) {
      expect(heard[end].closed).toBe(0);
      heard[end].numbers.push(message[0] as number);
      told.push(`${time.nowMs} ${end} ${message[0]}`);
    },
    closed(reason) {
      heard[end].closed += 1;
      told.push(`${time.nowMs} ${end} ${reason}`);
    },
  });
  const accepted: Channel[] = [];
  await network.of("b").listen((channel) => {
    accepted.push(channel);
    channel.trust();
    return listener("acceptor");
  });
  const dialler = await time.until(network.of("a").connect("sim://b", listener("dialler"), 1_000));
  dialler.trust();
  const sent = { dialler: 0, acceptor: 0 };
  let isCut = false;
  for (const todo of steps) {
    if (todo.do === "send") {
      const end = todo.byAcceptor ? "acceptor" : "dialler";
      (todo.byAcceptor ? accepted[0] : dialler)?.send(Uint8Array.of(++sent[end]));
    } else if (todo.do === "pass") await time.advance(todo.ms);
    else if (todo.do === "cut") {
      network.cut(todo.back ? "b" : "a", todo.back ? "a" : "b", todo.oneWay);
      isCut = true;
    } else if (todo.do === "heal") {
      network.heal();
      isCut = false;
    } else if (todo.do === "reset") network.reset("a", "b");
    else network.kill("b", { silently: todo.silently });
  }
  await time.advance(1_000);
  for (const { numbers, closed } of Object.values(heard)) {
    expect(numbers, "a beginning of what was sent, in order").toEqual(numbers.map((_, index) => index + 1));
    expect(closed).toBeLessThanOrEqual(1);
  }
  const isWhole = !isCut && heard.dialler.closed + heard.acceptor.closed === 0 && network.openChannels === 1;
  if (isWhole) {
    expect(heard.acceptor.numbers).toHaveLength(sent.dialler);
    expect(heard.dialler.numbers).toHaveLength(sent.acceptor);
  }
  return told;
}

it("a channel brings a beginning of what was sent, in order; all of it unless it broke; and the same for the same seed", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(2 ** 31), fc.array(step, { maxLength: 60 }), async (seed, steps) => {
      expect(await history(seed, steps)).toEqual(await history(seed, steps));
    }),
    { numRuns: 150 },
  );
});

it("a heal lets what waited arrive in some channels and breaks others", async () => {
  const endings = new Set<string>();
  for (let seed = 0; seed < 20; seed++) {
    const time = new VirtualTime();
    const network = new SimulatedNetwork(time, { seed });
    await network.of("b").listen(() => ({ message: () => endings.add("late"), closed: () => endings.add("broken") }));
    const channel = await time.until(network.of("a").connect("sim://b", SILENT, 1_000));
    network.cut("a", "b");
    channel.send(Uint8Array.of(1));
    await time.advance(10_000);
    network.heal("a", "b");
    await time.advance(10);
  }
  expect(endings).toEqual(new Set(["late", "broken"]));
});

it("connecting fails where nobody listens, where it is refused, through a cut, and to a machine that is off", async () => {
  const time = new VirtualTime();
  const network = new SimulatedNetwork(time, { latencyMs: { min: 1, max: 1 } });
  const connect = async (): Promise<number | string> => {
    const sinceMs = time.nowMs;
    const made = network.of("a").connect("sim://b", SILENT, 500);
    return time.until(
      made.then(
        () => "made",
        () => time.nowMs - sinceMs,
      ),
    );
  };
  expect(await connect()).toBe(2);
  await network.of("b").listen(() => SILENT);
  expect(await connect()).toBe("made");
  network.refuse("b");
  expect(await connect()).toBe(2);
  network.admit("b");
  network.partition(["a"], ["b", "c"]);
  expect(await connect()).toBe(500);
  network.heal();
  network.kill("b", { silently: true });
  expect(await connect()).toBe(500);
  await network.of("b").listen(() => SILENT);
  expect(await connect()).toBe("made");
});
