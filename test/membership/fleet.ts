/** Processes of a fleet in one virtual time over one bucket, each with clocks, faults and pauses of its own. */
import os from "node:os";
import path from "node:path";
import { expect } from "vitest";
import type { Bucket } from "../../src/bucket/bucket.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { MemoryContents } from "../../src/bucket/memory-contents.js";
import type { NodeRecord } from "../../src/membership/contract.js";
import { Members, type MembersSettings } from "../../src/membership/members.js";
import { VirtualMarks } from "../../src/testing/virtual-marks.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";

export const SETTINGS: MembersSettings = { NODE_TTL_MS: 5_000, NODE_TTL_MARGIN_MS: 500, NODES_MAX: 64 };

export interface ProcessOptions {
  readonly name: string;
  /** Default: the node's name, so that the data folder is the same after a restart. */
  readonly journal?: string;
  readonly monotonicRate?: number;
  readonly settings?: Partial<MembersSettings>;
  readonly zone?: string;
}

/** What a process was told, in order. */
export type Told =
  | { readonly kind: "ended"; readonly session: string; readonly atMs: number }
  | { readonly kind: "lapsed" | "joined" | "replaced" | "changed"; readonly session: string; readonly atMs: number };

export class Fleet {
  readonly time = new VirtualTime();
  readonly contents = new MemoryContents();
  readonly processes: Process[] = [];
  /** Where all processes run on one machine. */
  readonly marks: VirtualMarks | undefined;
  /** Sessions that somebody called dead. */
  readonly dead = new Set<string>();
  #nextSeed: number;

  constructor(seed = 1, { isOneMachine = false }: { readonly isOneMachine?: boolean } = {}) {
    this.marks = isOneMachine ? new VirtualMarks() : undefined;
    this.#nextSeed = seed * 1_000;
  }

  /** A world that is never stopped, for what stands outside of all processes. */
  world(monotonicRate = 1): VirtualWorld {
    const root = path.join(os.tmpdir(), "moonport-membership-has-no-folder");
    return new VirtualWorld({ time: this.time, root, seed: this.#nextSeed++, monotonicRate });
  }

  /** Begins to start one. */
  launch(options: ProcessOptions): Process {
    const process = new Process(this, options);
    this.processes.push(process);
    return process;
  }

  async start(options: ProcessOptions): Promise<Process> {
    const process = this.launch(options);
    await this.time.until(process.joining);
    return process;
  }

  get running(): Process[] {
    return this.processes.filter(({ isAlive, members }) => isAlive && members !== undefined);
  }

  holderOf(session: string): Process | undefined {
    return this.processes.find(({ sessions }) => sessions.has(session));
  }

  /** The safety case: who is called dead is not valid, now and ever after. Asked of a stopped process when it goes on. */
  sayDead(session: string): void {
    this.dead.add(session);
    this.#checkDead(session);
  }

  checkAllDead(): void {
    for (const session of this.dead) this.#checkDead(session);
  }

  /** Also of a process that is stopped: its clock goes on, and so it would answer if it went on now. */
  #checkDead(session: string): void {
    const holder = this.holderOf(session);
    if (holder === undefined || !holder.isAlive || holder.session !== session) return;
    expect(holder.members?.sessionLeftMs, `${session} was called dead`).toBeLessThanOrEqual(0);
  }

  async stop(): Promise<void> {
    for (const process of this.running) await this.time.until(process.members?.stop() as Promise<void>);
  }
}

export class Process {
  readonly world: VirtualWorld;
  /** With this process's faults and latency, over what all share. */
  readonly bucket: MemoryBucket;
  readonly name: string;
  readonly journal: string;
  readonly sessions = new Set<string>();
  readonly told: Told[] = [];
  readonly joining: Promise<void>;
  members: Members | undefined;
  failure: unknown;
  isAlive = true;
  /** Nothing was ever done to it: it must never lapse. */
  isUndisturbed = true;
  /** It was asked to, and has. */
  hasStopped = false;
  /** Requests and answers take their time, now and then a very long one. */
  isStormy = false;
  /** Of the next writes and their answers, in the order in which they leave. */
  writeLatenciesMs: number[] = [];
  readonly #fleet: Fleet;

  constructor(fleet: Fleet, { name, journal = name, monotonicRate = 1, settings, zone = "z" }: ProcessOptions) {
    this.#fleet = fleet;
    this.name = name;
    this.journal = journal;
    this.world = fleet.world(monotonicRate);
    this.bucket = new MemoryBucket(fleet.world(), {
      contents: fleet.contents,
      ...(fleet.marks && { marks: fleet.marks.of(this.world) }),
      timeoutMs: 10_000,
      latencyMs: (operation, { random }) => {
        const planned = operation === "write" ? this.writeLatenciesMs.shift() : undefined;
        return planned ?? this.#latencyMs(random.fraction(), random.fraction());
      },
    });
    const say = (kind: "lapsed" | "joined" | "replaced" | "changed"): void =>
      void this.told.push({ kind, session: this.members?.self.session ?? "", atMs: fleet.time.nowMs });
    this.joining = this.#join({
      world: this.world,
      bucket: seenBy(this.world, this.bucket),
      settings: { ...SETTINGS, ...settings },
      log: this.world.log,
      self: { node: name, address: `ws://${name}`, zone, weight: 1, version: "1", journal },
      events: {
        sessionEnded: (record: NodeRecord) => {
          this.told.push({ kind: "ended", session: record.session, atMs: fleet.time.nowMs });
          fleet.sayDead(record.session);
        },
        changed: () => say("changed"),
        told: () => {},
        lapsed: () => say("lapsed"),
        joined: ({ session }) => {
          this.sessions.add(session);
          say("joined");
        },
        replaced: () => say("replaced"),
      },
    });
    this.joining.catch((error: unknown) => {
      this.failure = error;
      this.isAlive = false;
    });
  }

  get session(): string {
    return this.members?.self.session ?? "";
  }

  toldOf(kind: Told["kind"]): Told[] {
    return this.told.filter((one) => one.kind === kind);
  }

  /** As a kill does: nothing of it runs any more, what it sent may land. */
  kill(): void {
    this.isAlive = false;
    this.world.revoke();
  }

  stopProcess(): void {
    this.isUndisturbed = false;
    this.world.stopProcess();
  }

  continueProcess(first: "in_order" | "arrivals" = "in_order"): void {
    if (this.isAlive) this.world.continueProcess(first);
  }

  async ask(session: string): Promise<"live" | "dead" | "failed"> {
    try {
      const standing = await (this.members as Members).standing(session);
      if (standing === "dead" && !this.world.revoked) this.#fleet.sayDead(session);
      return standing;
    } catch {
      return "failed";
    }
  }

  #latencyMs(kind: number, share: number): number {
    const mostMs = !this.isStormy || kind < 0.6 ? 20 : kind < 0.9 ? SETTINGS.NODE_TTL_MS / 3 : SETTINGS.NODE_TTL_MS;
    return 1 + share * mostMs;
  }

  async #join(options: Parameters<typeof Members.join>[0]): Promise<void> {
    await this.bucket.start();
    const members = await Members.join(options);
    this.members = members;
    this.sessions.add(members.self.session);
  }
}

/** Answers reach a process that runs, or never. */
function seenBy(world: VirtualWorld, bucket: MemoryBucket): Bucket {
  const arriving = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      return await answer;
    } finally {
      await world.running();
      if (world.revoked) await new Promise(() => {});
    }
  };
  return {
    name: bucket.name,
    atomic: bucket.atomic,
    marks: bucket.marks,
    start: async () => {},
    stop: async () => {},
    get: (key) => arriving(bucket.get(key)),
    write: (writes) => arriving(bucket.write(writes)),
    writeStream: (key, parts) => arriving(bucket.writeStream(key, parts)),
    readStream: (key) => arriving(bucket.readStream(key)),
    list: (prefix, options) => arriving(bucket.list(prefix, options)),
    delete: (keys) => arriving(bucket.delete(keys)),
  };
}
