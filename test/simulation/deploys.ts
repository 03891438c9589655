/**
 * Deployments in a simulation: some deploy and roll back through any node while everybody calls, others stamp objects with the
 * release that answers them, and read them, which a copy may answer.
 *
 * Every release has the app's own classes, so whatever else is asked of a run is asked of it while releases switch. Beside them
 * it has a class whose methods say which release they are of and write into a column that only its last migration makes.
 */
import type { AppSource } from "../../src/app-source.js";
import { asMoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { filesOf, sourceOf } from "../../src/release/bundle.js";
import type { Deployed, ReleaseFile } from "../../src/release/contract.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import { sleep, uuidv7, type World } from "../../src/world/world.js";

export interface DeploysParts {
  readonly fleet: SimulatedFleet;
  /** Outside of all nodes. */
  readonly world: World;
  readonly random: SeededRandom;
  readonly base: AppSource;
  readonly deployers: number;
  /** Nothing else goes wrong: no call may fail, and nobody goes back to fewer migrations. */
  readonly isQuiet: boolean;
  readonly tell: (what: string) => void;
}

/** What a release writes into an object. */
interface Stamp {
  readonly value: number;
  /** Of the release's files: each deployment has others. */
  readonly content: number;
  readonly migrations: number;
}

interface Answered {
  readonly content: number;
  readonly begunMs: number;
}

/** What a copy answered with, and what of before it held: the release of its class, and that of the newest stamp. */
interface Read {
  readonly object: string;
  readonly content: number;
  readonly migrations: number;
  /** Absent of an object that has no stamp yet. */
  readonly stampedBy?: number;
  readonly migrated?: number;
}

const APP = "default";
const OBJECTS = ["s0", "s1", "s2"].map((key) => identityOf(APP, "Stamp", key));
const STAMPERS = 3;
const TIMEOUT_MS = 4_000;
const TRIES_MAX = 20;
/** Of stampers' turns, in how many they read too. */
const READ_SHARE = 0.5;
/** What a deployment may end with while things go wrong; anything else is a fault. */
const MAY_REFUSE = new Set([
  "deploy_conflict",
  "objects_migrated",
  "objects_unread",
  "release_not_found",
  "bucket_failed",
  "node_unreachable",
  "node_stopping",
  "outcome_unknown",
]);
const MAY_REFUSE_IN_QUIET = new Set(["deploy_conflict", "release_not_found"]);

/** What the fleet begins with. */
export function firstApp(base: AppSource): AppSource {
  return sourceOf(APP, filesWith(base, 0, 1));
}

function filesWith(base: AppSource, content: number, migrations: number): ReleaseFile[] {
  const list = Array.from({ length: migrations }, (_, index) =>
    index === 0
      ? "CREATE TABLE stamps (value INTEGER, content INTEGER, migrations INTEGER, m1 INTEGER)"
      : `ALTER TABLE stamps ADD COLUMN m${index + 1} INTEGER`,
  );
  const text = `local Stamp = class "Stamp"
Stamp.migrations = { ${list.map((sql) => `[[${sql}]]`).join(", ")} }
function Stamp:stamp(value)
  state.sql.exec("INSERT INTO stamps (value, content, migrations, m${migrations}) VALUES (?, ${content}, ${migrations}, 1)", value)
  return ${content}
end
function Stamp.read:stamps()
  return state.sql.all("SELECT value, content, migrations FROM stamps ORDER BY rowid")
end
function Stamp.read:content() return ${content} end
function Stamp.read:newest()
  local last = state.sql.one("SELECT content, migrations FROM stamps ORDER BY rowid DESC LIMIT 1") or {}
  return { content = ${content}, migrations = ${migrations}, stamped_by = last.content, migrated = last.migrations }
end
return Stamp`;
  return [...filesOf(base), { path: "classes/Stamp.lua", text }];
}

export class Deploys {
  readonly #parts: DeploysParts;
  readonly #faults: string[] = [];
  /** Numbers of deployments that were acknowledged, by content; several of one content where it was brought back. */
  readonly #acknowledged: { readonly content: number; readonly number: number; readonly id: string }[] = [];
  /** Every node of the fleet said that it serves at least that, by then. */
  readonly #everywhere: { readonly number: number; readonly atMs: number }[] = [];
  readonly #answered: Answered[] = [];
  readonly #reads: Read[] = [];
  readonly #stamped: { readonly object: string; readonly value: number; readonly isKnown: boolean }[] = [];
  #contents = 0;
  #migrations = 1;
  #values = 0;

  constructor(parts: DeploysParts) {
    this.#parts = parts;
  }

  /** Deploys and stamps until then. */
  async run(untilMs: number): Promise<void> {
    const deployers = Array.from({ length: this.#parts.deployers }, (_, number) => this.#deployer(number, untilMs));
    const stampers = Array.from({ length: STAMPERS }, (_, number) => this.#stamper(number, untilMs));
    await Promise.all([...deployers, ...stampers]);
  }

  /** In calm: one more release, which every node then serves. @returns what is wrong */
  async end(): Promise<readonly string[]> {
    await this.#checkServed("after the storm");
    const last = await this.#lastDeployment();
    if (last === undefined) return [...this.#faults, "nothing can be deployed in calm"];
    await this.#checkServed("at the end");
    for (const object of OBJECTS) await this.#checkObject(object.key, last);
    await this.#checkRecord(last);
    return this.#faults;
  }

  /** It has been calm for longer than nodes take to look. */
  async #checkServed(when: string): Promise<void> {
    const { fleet } = this.#parts;
    const [first] = fleet.nodes.values();
    const current = (await first?.node.releases(APP))?.releases.at(-1);
    if (current === undefined) return;
    for (const { name, node } of fleet.nodes.values()) {
      const [served] = (await node.status()).releases;
      if (served?.release === current.number && served.failed === undefined) continue;
      this.#faults.push(`${name} does not serve release ${current.number} ${when}: ${JSON.stringify(served)}`);
    }
  }

  async #deployer(number: number, untilMs: number): Promise<void> {
    const { fleet, world, random } = this.#parts;
    while (fleet.time.nowMs < untilMs) {
      await sleep(world, random.below(1_500));
      const through = this.#someNode();
      const told = await this.#deployment(through);
      this.#parts.tell(`deployer ${number} through ${through}: ${told}`);
    }
  }

  async #deployment(through: string): Promise<string> {
    const { random, isQuiet, fleet } = this.#parts;
    const isRollback = !isQuiet && random.fraction() < 0.2;
    const content = ++this.#contents;
    if (random.fraction() < 0.3) this.#migrations++;
    const migrations = this.#migrations;
    const terms = { app: APP, by: `${content}`, message: `${migrations}` };
    try {
      const deployed = await fleet
        .node(through)
        .ask((node) =>
          isRollback
            ? node.rollback({ ...terms })
            : node.deploy({ ...terms, files: filesWith(this.#parts.base, content, migrations) }),
        );
      this.#note(isRollback ? undefined : content, deployed);
      return `release ${deployed.release.number}, ${migrations} migrations${isRollback ? ", back" : ""}`;
    } catch (thrown) {
      const { code, message } = asMoonportError(thrown);
      const may = isQuiet ? MAY_REFUSE_IN_QUIET : MAY_REFUSE;
      if (!may.has(code) && !RETRYABLE.has(code)) this.#faults.push(`a deployment ended with ${code}: ${message}`);
      return `${code}: ${message}`;
    }
  }

  /** @param content undefined of a release whose files had been there before */
  #note(content: number | undefined, { release, changed, nodes }: Deployed): void {
    const { fleet } = this.#parts;
    const { number, id } = release;
    if (changed && content !== undefined) this.#acknowledged.push({ content, number, id });
    const serving = nodes.filter((node) => node.unreachable !== true && (node.release ?? 0) >= number);
    if (serving.length === fleet.nodes.size) this.#everywhere.push({ number, atMs: fleet.time.nowMs });
  }

  async #stamper(number: number, untilMs: number): Promise<void> {
    const { fleet, world, random, tell } = this.#parts;
    while (fleet.time.nowMs < untilMs) {
      const object = OBJECTS[random.below(OBJECTS.length)] as (typeof OBJECTS)[number];
      const value = ++this.#values;
      const ended = await this.#stamp(object, value);
      this.#stamped.push({ object: object.key, value, isKnown: ended.isKnown });
      tell(`stamper ${number} ${object.key} ${value}: ${ended.what}`);
      if (random.fraction() < READ_SHARE) await this.#read(number, object);
      await sleep(world, random.below(80));
    }
  }

  /** Through some node, a copy on which may answer. What it cannot be asked for now is no matter here. */
  async #read(number: number, object: (typeof OBJECTS)[number]): Promise<void> {
    const { fleet, tell } = this.#parts;
    const through = this.#someNode();
    const request = { object, method: "newest", args: [], caller: { kind: "client" }, consistency: "replica" } as const;
    try {
      const { value, from } = await fleet.node(through).call({ ...request, timeoutMs: TIMEOUT_MS });
      const { content, migrations, stamped_by: stampedBy, migrated } = value as Record<string, number | undefined>;
      tell(`stamper ${number} ${object.key}: read by ${content} through ${through} from ${from ?? "its owner"}`);
      if (from === undefined || content === undefined || migrations === undefined) return;
      const before = { ...(stampedBy !== undefined && { stampedBy }), ...(migrated !== undefined && { migrated }) };
      this.#reads.push({ object: object.key, content, migrations, ...before });
    } catch (thrown) {
      tell(`stamper ${number} ${object.key}: not read through ${through}: ${asMoonportError(thrown).code}`);
    }
  }

  async #stamp(object: (typeof OBJECTS)[number], value: number): Promise<{ isKnown: boolean; what: string }> {
    const { fleet, world, random, isQuiet } = this.#parts;
    const callId = uuidv7(world);
    let what = "";
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const begunMs = fleet.time.nowMs;
      try {
        const call = { object, method: "stamp", args: [value], caller: { kind: "client" }, callId } as const;
        const reply = await fleet.node(this.#someNode()).call({ ...call, timeoutMs: TIMEOUT_MS });
        // What is answered again says which release did it the first time.
        if (tries === 1) this.#answered.push({ content: reply.value as number, begunMs });
        return { isKnown: true, what: `by ${reply.value}` };
      } catch (thrown) {
        const error = asMoonportError(thrown);
        what = `${error.code}: ${error.message}`;
        if (isQuiet || !(error.retryable || error.code === "outcome_unknown")) {
          this.#faults.push(`a call failed while releases switched: ${what}`);
          break;
        }
        await sleep(world, 10 + random.below(200));
      }
    }
    return { isKnown: false, what };
  }

  /** With all migrations that any had. */
  async #lastDeployment(): Promise<Deployed | undefined> {
    const { fleet, world, base, tell } = this.#parts;
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const content = ++this.#contents;
      const files = filesWith(base, content, this.#migrations);
      try {
        const request = { app: APP, files, by: `${content}`, message: `${this.#migrations}` };
        const deployed = await fleet.node(this.#someNode()).ask((node) => node.deploy(request));
        this.#note(content, deployed);
        return deployed;
      } catch (thrown) {
        tell(`the last deployment: ${asMoonportError(thrown).message}`);
        await sleep(world, 500);
      }
    }
    return undefined;
  }

  async #checkObject(key: string, { release }: Deployed): Promise<void> {
    const { fleet } = this.#parts;
    const object = identityOf(APP, "Stamp", key);
    let stamps: readonly Stamp[] = [];
    for (const name of fleet.nodes.keys()) {
      const call = { object, args: [], caller: { kind: "client" } } as const;
      try {
        const { value } = await fleet.node(name).call({ ...call, method: "content" });
        if (`${value}` !== release.by) this.#faults.push(`${key} is served by ${value} through ${name} in calm`);
        stamps = (await fleet.node(name).call({ ...call, method: "stamps" })).value as unknown as readonly Stamp[];
      } catch (thrown) {
        this.#faults.push(`${key} does not answer through ${name} in calm: ${asMoonportError(thrown).message}`);
      }
    }
    const seen = new Set(stamps.map(({ value }) => value));
    if (seen.size !== stamps.length) this.#faults.push(`${key} has a stamp twice`);
    const lost = this.#stamped.filter((one) => one.object === key && one.isKnown && !seen.has(one.value));
    if (lost.length > 0) this.#faults.push(`${key} has lost ${lost.map(({ value }) => value).join(", ")}`);
    for (const [index, { migrations, content }] of stamps.entries()) {
      const before = stamps[index - 1];
      if (before === undefined || before.migrations <= migrations) continue;
      this.#faults.push(
        `${key} was migrated ${before.migrations} times, and then written by ${content}, which knows ${migrations}`,
      );
    }
  }

  /** Who was told that a release is theirs has it, and nobody was answered by one that never was or was over. */
  async #checkRecord(last: Deployed): Promise<void> {
    const { fleet } = this.#parts;
    const [first] = fleet.nodes.keys();
    const { releases } = await fleet.node(first as string).node.releases(APP);
    if (releases.at(-1)?.id !== last.release.id)
      this.#faults.push("the record names another release than the last one");
    for (const { content, number, id } of this.#acknowledged) {
      const found = releases.find((release) => release.number === number);
      if (found?.id === id) continue;
      this.#faults.push(`deployment ${content} was told to be release ${number}, which is ${found?.by ?? "none"}`);
    }
    // By the files' hash: what was rolled back to has the number of its last time.
    const numberOf = new Map([[0, 0]]);
    const contentOf = new Map<string, number>();
    for (const { bundle, by, number, rollbackOf } of releases) {
      if (rollbackOf === undefined) contentOf.set(bundle, Number(by));
      numberOf.set(contentOf.get(bundle) ?? -1, number);
    }
    for (const read of this.#reads) this.#checkRead(read, numberOf);
    for (const { content, begunMs } of this.#answered) {
      const number = numberOf.get(content);
      if (number === undefined) {
        this.#faults.push(`a call was answered by ${content}, which never was a release`);
        continue;
      }
      const least = Math.max(0, ...this.#everywhere.filter(({ atMs }) => atMs < begunMs).map((one) => one.number));
      if (number < least) this.#faults.push(`a call was answered by release ${number}, when all nodes served ${least}`);
    }
  }

  /**
   * R4: its class is the owner's, and that of what it holds. Where nothing goes wrong an object stays with its owner, who goes on
   * to newer releases only: no copy holds what a newer one has written than that which reads it.
   */
  #checkRead({ object, content, migrations, stampedBy, migrated }: Read, numberOf: ReadonlyMap<number, number>): void {
    if (migrated !== undefined && migrated > migrations) {
      this.#faults.push(
        `a copy of ${object}, migrated ${migrated} times, was read by ${content}, which knows ${migrations}`,
      );
    }
    const [reading, writing] = [numberOf.get(content), numberOf.get(stampedBy ?? content)];
    if (!this.#parts.isQuiet || reading === undefined || writing === undefined || writing <= reading) return;
    this.#faults.push(`a copy of ${object}, written by release ${writing}, was read by release ${reading}`);
  }

  #someNode(): string {
    const names = [...this.#parts.fleet.nodes.keys()];
    return names[this.#parts.random.below(names.length)] as string;
  }
}

/** Of links and sessions: they say that it may be asked again. */
const RETRYABLE = new Set(["node_fenced", "link_broken", "link_full", "moved"]);
