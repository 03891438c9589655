/**
 * The demo: an auction whose node is killed in the middle of the bidding, and what is there when it comes back.
 *
 * Run it with `npm run demo`. It uses a temporary folder and a free port, and leaves neither files nor processes behind.
 * It ends with 0 only if every acknowledged bid is there and no other one is there in part.
 */
import type { ChildProcess } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { packageRoot } from "../../cli/package-root.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { type Audit, audit } from "./audit.js";
import { Bidders, LOT } from "./bidders.js";
import { NodeProcess } from "./node-process.js";
import { FlightTable, heading, line } from "./page.js";

const BIDDERS = ["ada", "grace", "katherine", "margaret", "mae", "sally"];
/** Bids of each while the flights are shown. */
const CALM_ROUNDS = 5;
const CALM_THOUGHT_MS = 120;
/** Answers that the bidders get at full speed before the kill. */
const ANSWERS_BEFORE_KILL = 80;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-demo-"));
const data = path.join(folder, "data");
const world = realWorld(folder, silentLogger);
const children = new Set<ChildProcess>();
const flights = new FlightTable();
const bidders = new Bidders(world, BIDDERS);
let isShowingFlights = false;

async function demo(): Promise<boolean> {
  heading("Moonport demo: an auction, and kill -9 in the middle of the bidding");

  heading("1  A node on a temporary folder");
  const first = await startNode();
  const classes = (await first.client.classes()).map(({ name }) => name);
  line(`${first.url}, process ${first.pid}, classes ${classes.join(", ")} from ${path.join(packageRoot, "classes")}`);

  heading(`2  ${BIDDERS.length} bidders at once, and each flight as it lands`);
  line(
    "A bid is one transaction. Its reply waits at a gate until the flight that carries it has landed in the bucket.",
  );
  line();
  flights.begin();
  isShowingFlights = true;
  await first.client.call({ object: LOT, method: "open", args: [{ title: "Moon globe" }], caller: { kind: "client" } });
  await bidders.bid(first.client, CALM_ROUNDS, CALM_THOUGHT_MS);
  isShowingFlights = false;
  if (flights.hidden > 0) line(`and ${flights.hidden} more`);
  line();
  line(`${bidders.count("acknowledged")} bids acknowledged, ${bidders.count("refused")} refused: ${refusals()}`);

  heading("3  Bidding at full speed, then SIGKILL");
  await bidUntilKilled(first);
  line(`process ${first.pid} is gone, ${bidders.count("waiting")} bids without an answer`);

  heading("4  The same folder, a new process");
  const second = await startNode();
  line(`${second.url}, process ${second.pid}`);
  const after = await audit(second.client, bidders.bids);
  tellAudit(after);
  const again = after.unanswered > 0 ? await askAgain(second) : after;
  await second.kill();
  return tellVerdict(after, again);
}

function startNode(): Promise<NodeProcess> {
  return NodeProcess.start(
    data,
    (flight) => flights.add(flight, isShowingFlights),
    (child) => {
      children.add(child);
      child.once("close", () => children.delete(child));
    },
  );
}

/** Nobody is told to stop: each bidder goes on until a bid of theirs stays without an answer. */
async function bidUntilKilled(node: NodeProcess): Promise<void> {
  const answered = (): number => bidders.count("acknowledged") + bidders.count("refused");
  const killAt = answered() + ANSWERS_BEFORE_KILL;
  const bidding = bidders.bid(node.client, Number.POSITIVE_INFINITY, 0);
  const killing = new Promise<void>((resolve, reject) => {
    const look = (): void => {
      if (answered() < killAt) return void world.timers.soon(look);
      line(`${bidders.count("acknowledged")} bids acknowledged by now, ${bidders.count("refused")} refused; kill -9`);
      node.kill().then(resolve, reject);
    };
    look();
  });
  await Promise.all([bidding, killing]);
}

/** The bids without an answer, sent again with the ids they had: what was taken is answered again, the rest is bid now. */
async function askAgain(node: NodeProcess): Promise<Audit> {
  const unanswered = bidders.bids.filter(({ fate }) => fate === "waiting");
  for (const bid of unanswered) {
    if (!(await bidders.send(node.client, bid))) throw new Error(`no answer to ${bid.who}'s bid of ${bid.amount}`);
  }
  const taken = unanswered.filter(({ fate }) => fate === "acknowledged").length;
  line();
  line(
    `The ${unanswered.length} sent again with their call ids: ${taken} acknowledged, ${unanswered.length - taken} refused.`,
  );
  const result = await audit(node.client, bidders.bids);
  line(`Bids in the auction now: ${result.bidsFound}, each of them once.`);
  return result;
}

function refusals(): string {
  const byCode = new Map<string, number>();
  for (const { code } of bidders.bids) if (code !== undefined) byCode.set(code, (byCode.get(code) ?? 0) + 1);
  return [...byCode].map(([code, count]) => `${count} ${code}`).join(", ");
}

function tellAudit(result: Audit): void {
  const number = (value: number): string => `${value}`.padStart(5);
  line();
  line(`bids acknowledged before the kill  ${number(result.acknowledged)}`);
  line(`of these found after the restart   ${number(result.acknowledgedFound)}`);
  line(`bids without an answer             ${number(result.unanswered)}`);
  line(`of these there as a whole          ${number(result.unansweredFound)}`);
  line(`of these absent as a whole         ${number(result.unanswered - result.unansweredFound)}`);
}

function tellVerdict(...audits: readonly Audit[]): boolean {
  const faults = audits.flatMap((one) => one.faults);
  if (faults.length > 0) {
    heading("It does not hold");
    for (const fault of faults) line(fault);
    return false;
  }
  heading("It holds: what was acknowledged is there, and nothing is there by half");
  heading("What to type next");
  line("The same from the command line, no node needed; the third call is refused, for grace bids too low:");
  line();
  if (process.cwd() !== packageRoot) line(`cd ${packageRoot}`);
  line('npx moonport call Auction/lot-42 open \'{"title":"Moon globe"}\'');
  line("npx moonport call Auction/lot-42 bid ada 25");
  line("npx moonport call Auction/lot-42 bid grace 20");
  line("npx moonport inspect Auction/lot-42");
  line();
  line("A node that goes on running, and loads a class again when you save it:");
  line();
  line("npx moonport dev");
  return true;
}

let leaving: Promise<never> | undefined;

/** Ends every process that the demo started, removes its folder, and ends. The first to ask says with what. */
function leave(code: number): Promise<never> {
  leaving ??= (async () => {
    const ends = [...children].map((child) => new Promise((resolve) => void child.once("close", resolve)));
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(ends);
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    process.exit(code);
  })();
  return leaving;
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
for (const [signal, code] of Object.entries(SIGNALS)) process.on(signal, () => void leave(code));
// A reader that has seen enough (`npm run demo | head`) closes the pipe.
process.stdout.on("error", () => void leave(1));

try {
  const holds = await demo();
  await leave(holds ? 0 : 1);
} catch (error) {
  // Its processes are gone when it leaves, and the demo then fails over that.
  if (leaving === undefined)
    process.stderr.write(`\nThe demo failed: ${error instanceof Error ? error.stack : error}\n`);
  await leave(1);
}
