import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { connect } from "../../src/client/index.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { RunningCli } from "../cli/cli.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { TALLY, type TallyMethods } from "./support/tally.js";

const CALLS = 300;
const KILLS = 2;

it("each call runs once though the node is killed and started again under it, and no event is missed", async () => {
  const cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  fs.writeFileSync(path.join(cwd, "classes", "Tally.lua"), TALLY);
  let node = new RunningCli({ cwd }, "start", "--json", "--port", "0");
  const { url } = (await node.document("url")) as { url: string };
  const client = connect(url, { reconnectDelayMs: 20, reconnectDelayMaxMs: 200, callsInFlightMax: 8 });
  onTestFinished(() => client.close());
  const tally = client.object<TallyMethods>("Tally", "a");
  const events = tally.subscribe({ from: { after: 0 } });

  const random = new SeededRandom(5);
  const killAt = Array.from({ length: KILLS }, (_, index) => Math.floor((index + random.fraction()) * (CALLS / KILLS)));
  let answered = 0;
  const restarts: Promise<unknown>[] = [];
  const call = async (index: number): Promise<number> => {
    const total = await tally.add(`call ${index}`);
    answered++;
    if (killAt.includes(answered)) {
      node.signal("SIGKILL");
      await node.exit;
      node = new RunningCli({ cwd }, "start", "--json", "--port", new URL(url).port);
      restarts.push(node.document("url"));
    }
    return total;
  };
  const totals = await Promise.all(Array.from({ length: CALLS }, (_, index) => call(index)));

  expect((await Promise.all(restarts)).length).toBe(KILLS);
  expect(new Set(totals).size).toBe(CALLS);
  expect(await tally.total()).toBe(CALLS);
  expect(await tally.twice()).toHaveLength(0);
  const seen: number[] = [];
  for await (const item of events) {
    if (item.kind === "event") seen.push(item.number);
    if (seen.length === CALLS) break;
  }
  expect(seen).toEqual(Array.from({ length: CALLS }, (_, index) => index + 1));
});
