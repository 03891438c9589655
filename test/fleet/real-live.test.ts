/** Three nodes over real sockets, in real time, behind their real doors: a client watches through one that owns nothing. */
import { afterEach, beforeEach, expect, it } from "vitest";
import type { TallyMethods } from "../client/support/tally.js";
import { RealFleet } from "./real-fleet.js";

const NAMES = ["n1", "n2", "n3"];
const KEY = "a";

let fleet: RealFleet;
beforeEach(async () => {
  fleet = await RealFleet.start(NAMES);
});
afterEach(() => fleet.close());

const tallyBy = (name: string) => fleet.client(name).object<TallyMethods>("Tally", KEY);
const ownerSeenBy = (name: string): Promise<string> => fleet.ownerSeenBy(name, "Tally", KEY);

it.each([
  ["stops", (name: string) => fleet.stop(name)],
  ["dies", (name: string) => fleet.die(name)],
])(
  "events and values go on, each once, when the owner %s",
  async (_, end) => {
    const through = NAMES[0] as string;
    await tallyBy(through).add("first");
    const first = await ownerSeenBy("n1");
    const [watching, writing] = NAMES.filter((name) => name !== first) as [string, string];
    const watched = tallyBy(watching);
    const written = tallyBy(writing);
    const events = watched.subscribe({ from: { after: 0 } });
    const totals = watched.view("total");
    for (let index = 2; index <= 10; index++) await written.add(`before ${index}`);
    const ended = end(first);
    for (let index = 11; index <= 20; index++) await written.add(`after ${index}`);
    await ended;
    const numbers: number[] = [];
    for await (const item of events) {
      expect(item.kind).toBe("event");
      if (item.kind === "event") numbers.push(item.number);
      if (numbers.at(-1) === 20) break;
    }
    expect(numbers).toEqual(Array.from({ length: 20 }, (_value, index) => index + 1));
    for await (const total of totals) if (total === 20) break;
    expect(await ownerSeenBy(watching)).not.toBe(first);
    expect(await watched.twice()).toEqual([]);
  },
  30_000,
);

it("a client whose own node stops resumes through another", async () => {
  const written = tallyBy("n1");
  await written.add("first");
  const first = await ownerSeenBy("n1");
  const [leaving, staying] = NAMES.filter((name) => name !== first) as [string, string];
  const seen: number[] = [];
  const read = async (name: string, until: number): Promise<void> => {
    const events = tallyBy(name).subscribe({ from: { after: seen.at(-1) ?? 0 } });
    for await (const item of events) {
      if (item.kind === "event") seen.push(item.number);
      if (seen.at(-1) === until) break;
    }
  };
  const through = tallyBy(first);
  const reading = read(leaving, 5);
  for (let index = 2; index <= 5; index++) await through.add(`${index}`);
  await reading;
  const ended = fleet.stop(leaving);
  for (let index = 6; index <= 10; index++) await through.add(`${index}`);
  await read(staying, 10);
  await ended;
  expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}, 30_000);
