/**
 * This node's part in the fleet: it holds a session of its own, sees those of the others live and end, and says who is there.
 *
 * It promises that a session which it calls dead is over for the process that had it, and stays so (docs/cluster.md). A
 * session of its own that lapsed is followed by a fresh one as soon as the bucket takes it, unless another process has the
 * node's name by now: that is for an operator to settle.
 */
import { type Bucket, bucketError } from "../bucket/bucket.js";
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import type { ServedApp } from "../release/contract.js";
import type { Settings } from "../settings/settings.js";
import type { Logger } from "../world/logger.js";
import { sleep, type Timer, type World } from "../world/world.js";
import type { Membership, MembershipEvents, NodeRecord, SeenNode, SessionStanding } from "./contract.js";
import { type Enrolled, type EnrolmentOptions, endRecord, enrol, type Place, replacedError } from "./enrolment.js";
import { checkNodeName } from "./node-record.js";
import { OldRecords } from "./old-records.js";
import { type OverReason, OwnSession } from "./own-session.js";
import { type Reading, RecordReader, type RecordReaderOptions } from "./reading.js";
import { Sightings } from "./sightings.js";

export type MembersSettings = Pick<Settings, "NODE_TTL_MS" | "NODE_TTL_MARGIN_MS" | "NODES_MAX">;

export interface MembersOptions {
  readonly world: Pick<World, "clock" | "timers" | "random">;
  readonly bucket: Bucket;
  readonly settings: MembersSettings;
  /** This node; its session and ttl are made here. */
  readonly self: Omit<NodeRecord, "session" | "ttlMs">;
  readonly events: MembershipEvents;
  readonly log: Logger;
}

const READINGS_PER_TTL = 3;
/** Shortest pauses between two readings that nobody waits for, after one that succeeded and after one that did not. */
const STEPS_PER_TTL = 50;
const RETRIES_PER_TTL = 12;
const REJOINS_PER_TTL = 16;

type Phase = "member" | "lapsed" | "replaced" | "stopped";

export class Members implements Membership {
  #options: MembersOptions;
  readonly #sightings: Sightings;
  readonly #reader: RecordReader;
  readonly #oldRecords: OldRecords;
  readonly #stopping = new AbortController();
  #phase: Phase = "member";
  #whyInvalid = "";
  #session: OwnSession;
  /** Readings begun before may not know of the session's record yet. */
  #enrolledMs: number;
  #list: readonly NodeRecord[] = [];
  #byNode: ReadonlyMap<string, NodeRecord> = new Map();
  #planned: { readonly timer: Timer; readonly dueMs: number } | undefined;
  #readBegunMs = Number.NEGATIVE_INFINITY;
  /** Something has happened that will soon be explained: until then one reading follows the other. */
  #restlessUntilMs = Number.NEGATIVE_INFINITY;
  /** The last reading was not complete. */
  #isBlind = false;

  /**
   * Resolves when this node has a session and has seen the others. Where another process had its name that takes until that
   * one's session is over.
   * @throws MoonportError `bad_name`, `fleet_full`, `node_replaced`, `bucket_failed`, `bucket_unusable`
   */
  static async join({ self: given, ...others }: MembersOptions): Promise<Members> {
    checkNodeName(given.node);
    const mark = others.bucket.marks?.hold();
    const options: MembersOptions = { ...others, self: { ...given, ...(mark !== undefined && { mark }) } };
    const { self, settings } = options;
    const sightings = new Sightings(settings.NODE_TTL_MARGIN_MS);
    // A node that starts has the time.
    const reading = await new RecordReader({ ...readerOptions(options), patienceMs: settings.NODE_TTL_MS }).fresh();
    if (reading.error !== undefined) throw unread(reading.error);
    sightings.note(reading);
    const living = sightings.living().filter(({ node }) => node !== self.node);
    if (living.length >= settings.NODES_MAX) throw fleetFull(living.length, settings.NODES_MAX);
    const members = new Members(
      options,
      sightings,
      await enrol(enrolment(options, true, new AbortController().signal)),
    );
    members.#start();
    return members;
  }

  private constructor(options: MembersOptions, sightings: Sightings, enrolled: Enrolled) {
    this.#options = options;
    this.#sightings = sightings;
    this.#reader = new RecordReader({
      ...readerOptions(options),
      signal: this.#stopping.signal,
      read: (reading) => this.#note(reading),
    });
    const { world, bucket, log } = options;
    this.#oldRecords = new OldRecords({ world, bucket, log, ttlMs: enrolled.record.ttlMs });
    this.#session = this.#sessionOf(enrolled);
    this.#enrolledMs = this.#nowMs();
  }

  get self(): NodeRecord {
    return this.#session.record;
  }

  isValid(): boolean {
    return this.#phase === "member" && this.#session.isValid();
  }

  /** How long the session is still valid if no further renewal lands; not above 0 when it has lapsed. To look at, for gauges. */
  get sessionLeftMs(): number {
    return this.#phase === "member" ? this.#session.leftMs : 0;
  }

  members(): readonly NodeRecord[] {
    return this.#list;
  }

  member(node: string): NodeRecord | undefined {
    return this.#byNode.get(node);
  }

  seen(): readonly SeenNode[] {
    const byNode = new Map<string, SeenNode>();
    for (const { stored, isOver } of this.#sightings.all()) {
      const { record, phase } = stored;
      if (phase.kind === "removed" || (isOver && byNode.has(record.node))) continue;
      byNode.set(record.node, { record, standing: isOver ? "dead" : "live" });
    }
    byNode.set(this.self.node, { record: this.self, standing: this.isValid() ? "live" : "dead" });
    return [...byNode.values()].sort((left, right) => (left.record.node < right.record.node ? -1 : 1));
  }

  whyInvalid(): string | undefined {
    return this.isValid() ? undefined : this.#whyInvalid;
  }

  serveClientsAt(address: string): void {
    this.#tell({ clientAddress: address });
  }

  tellReleases(releases: readonly ServedApp[]): void {
    this.#tell({ releases });
  }

  weigh(weight: number): void {
    this.#tell({ weight });
  }

  tellJournalBroken(): void {
    this.#tell({ journalBroken: true });
  }

  #tell(fields: Partial<Pick<NodeRecord, "clientAddress" | "journalBroken" | "releases" | "weight">>): void {
    this.#options = { ...this.#options, self: { ...this.#options.self, ...fields } };
    this.#session.change(fields);
    if (this.#refreshList()) this.#options.events.changed();
  }

  known(session: string): SessionStanding | undefined {
    if (session === this.self.session) return this.isValid() ? "live" : "dead";
    return this.#sightings.known(session);
  }

  async standing(session: string): Promise<SessionStanding> {
    const known = this.known(session);
    if (known !== undefined) return known;
    this.#assertTakesPart();
    const reading = await this.#reader.fresh();
    this.#assertTakesPart();
    const found = this.known(session);
    if (found !== undefined) return found;
    if (reading.error !== undefined) throw unread(reading.error);
    this.#sightings.noteEnded(session);
    return "dead";
  }

  lookNow(): void {
    const { settings, bucket } = this.#options;
    this.#planReading(this.#readBegunMs + settings.NODE_TTL_MS / STEPS_PER_TTL);
    // A process that dies lets go of one thing after the other.
    if (bucket.marks !== undefined) this.#restlessUntilMs = this.#nowMs() + settings.NODE_TTL_MS / READINGS_PER_TTL;
  }

  /**
   * Ends the session: it is not valid from now on, and others see that at their next reading, if the bucket takes the word.
   * Idempotent; never fails.
   */
  async stop(): Promise<void> {
    if (this.#phase === "stopped") return;
    const isReplaced = this.#phase === "replaced";
    this.#phase = "stopped";
    this.#whyInvalid = "the node has stopped";
    this.#cease();
    this.#session.stop();
    if (isReplaced) return;
    // When the ttl has passed there is nothing left to say.
    const done = new AbortController();
    const ending = this.#endRecord(this.#session.key, this.self.session).finally(() => done.abort());
    await Promise.race([ending, sleep(this.#options.world, this.self.ttlMs, done.signal)]);
  }

  /** Afterwards nothing is noted, and not to know of a session proves nothing. */
  #assertTakesPart(): void {
    if (!this.#stopping.signal.aborted) return;
    throw MoonportError.of("node_fenced", `${this.self.node} takes no part in the fleet any more`);
  }

  #start(): void {
    this.#refreshList();
    this.#session.start();
    this.#planReading(this.#nowMs());
  }

  #sessionOf({ record, key, version, startedMs, before }: Enrolled): OwnSession {
    if (before !== undefined) this.#sightings.noteEnded(before);
    const { world, bucket, settings } = this.#options;
    const marginMs = settings.NODE_TTL_MARGIN_MS;
    const over = (why: OverReason): void => this.#lapsed(why);
    const changed = (): void => this.#options.events.told();
    return new OwnSession({ world, bucket, marginMs, record, key, version, startedMs, changed, over });
  }

  #lapsed(why: OverReason): void {
    this.#whyInvalid =
      why === "time" ? "no renewal was known to land in time" : "something else stands in its record's place";
    this.#options.log.warn(this.#named(), `this node's session has lapsed: ${this.#whyInvalid}`);
    try {
      this.#sessionIsOver();
    } finally {
      void this.#rejoin();
    }
  }

  #sessionIsOver(): void {
    this.#phase = "lapsed";
    this.#sightings.noteEnded(this.self.session);
    this.#options.events.lapsed();
  }

  async #rejoin(): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 0; this.#phase === "lapsed"; failures += 1) {
      if (failures > 0) await this.#pause(failures);
      if (signal.aborted) return;
      try {
        const enrolled = await enrol(enrolment(this.#options, false, signal));
        if (signal.aborted) return await this.#endRecord(enrolled.key, enrolled.record.session);
        this.#rejoined(enrolled);
      } catch (thrown) {
        const error = asMoonportError(thrown);
        if (isOwn(error, "node_replaced")) return this.#replaced(error);
        if (failures === 0)
          this.#options.log.warn({ ...this.#named(), error: error.message }, "this node has no session yet");
      }
    }
  }

  #pause(failures: number): Promise<void> {
    const { world, settings } = this.#options;
    const mostMs = settings.NODE_TTL_MS * Math.min(1, 2 ** Math.min(failures, 30) / REJOINS_PER_TTL);
    return sleep(world, mostMs * (0.5 + world.random.fraction() / 2), this.#stopping.signal);
  }

  #rejoined(enrolled: Enrolled): void {
    this.#session = this.#sessionOf(enrolled);
    this.#enrolledMs = this.#nowMs();
    this.#phase = "member";
    this.#start();
    this.#options.log.info(this.#named(), "this node has a session again");
    this.#options.events.joined(this.self);
  }

  #replaced(error: MoonportError): void {
    if (this.#phase === "stopped") return;
    this.#phase = "replaced";
    this.#whyInvalid = error.message;
    this.#cease();
    this.#options.log.error({ code: error.code, ...error.details, hint: error.hint }, error.message);
    this.#options.events.replaced(error);
  }

  #cease(): void {
    this.#stopping.abort();
    this.#planned?.timer.cancel();
    this.#planned = undefined;
  }

  /** No earlier than asked for; a reading that is planned for sooner will do. */
  #planReading(dueMs: number): void {
    if (this.#stopping.signal.aborted || (this.#planned !== undefined && this.#planned.dueMs <= dueMs)) return;
    this.#planned?.timer.cancel();
    const timer = this.#options.world.timers.after(Math.max(0, dueMs - this.#nowMs()), () => {
      this.#planned = undefined;
      void this.#reader.fresh();
    });
    this.#planned = { timer, dueMs };
  }

  #note(reading: Reading): void {
    if (this.#stopping.signal.aborted) return;
    const { events, self, bucket } = this.#options;
    const { marks } = bucket;
    const ended = [
      ...this.#sightings.note(reading),
      ...this.#sightings.noteEndedProcesses(({ mark }) => mark !== undefined && marks?.hasEnded(mark) === true),
    ];
    this.#tellOfReading(reading);
    this.#planNext(reading);
    void this.#oldRecords.tidy(this.#sightings.all(), this.#session.key, reading);
    this.#checkOwnName(reading);
    const hasChanged = this.#refreshList();
    for (const record of ended) if (record.journal !== self.journal) this.#inform(() => events.sessionEnded(record));
    if (hasChanged) this.#inform(() => events.changed());
  }

  /** A fault of those who hear of other nodes is told, and ends neither the process nor what is known of those nodes. */
  #inform(tell: () => void): void {
    try {
      tell();
    } catch (thrown) {
      this.#options.log.error(
        { ...this.#named(), error: asMoonportError(thrown) },
        "other nodes are there, and that was not acted on",
      );
    }
  }

  /** At the next third of the ttl, or as soon as it can be proved that somebody is dead. */
  #planNext({ begunMs, error }: Reading): void {
    const { NODE_TTL_MS } = this.#options.settings;
    this.#readBegunMs = begunMs;
    const provableMs = (this.#sightings.provableFromMs() ?? Number.POSITIVE_INFINITY) + 1;
    const pauseMs = NODE_TTL_MS / (error === undefined ? STEPS_PER_TTL : RETRIES_PER_TTL);
    const isRestless = this.#nowMs() < this.#restlessUntilMs;
    const wantedMs = isRestless ? begunMs : Math.min(begunMs + NODE_TTL_MS / READINGS_PER_TTL, provableMs);
    this.#planReading(Math.max(wantedMs, this.#nowMs() + pauseMs));
  }

  /** The log hears of the first failure and of the end of it. */
  #tellOfReading({ error }: Reading): void {
    const { log } = this.#options;
    if (error !== undefined && !this.#isBlind) log.warn({ error: error.message }, "not all nodes' records can be read");
    if (error === undefined && this.#isBlind) log.info({}, "all nodes' records can be read again");
    this.#isBlind = error !== undefined;
  }

  /** @returns whether anything changed in it */
  #refreshList(): boolean {
    const byNode = new Map<string, NodeRecord>();
    for (const record of this.#sightings.living()) if (!byNode.has(record.node)) byNode.set(record.node, record);
    byNode.set(this.self.node, this.self);
    const list = [...byNode.values()].sort((left, right) => (left.node < right.node ? -1 : 1));
    const hasChanged = JSON.stringify(list) !== JSON.stringify(this.#list);
    if (!hasChanged) return false;
    this.#list = list;
    this.#byNode = byNode;
    return true;
  }

  /**
   * Two processes that start under one name at the same moment may both find nothing, and each make a record: the one whose
   * key comes first stays. Own records at other keys are of writes that landed after they were given up.
   */
  #checkOwnName({ found }: Reading): void {
    for (const [key, { stored, begunMs }] of found) {
      const { record, phase } = stored;
      const isOther = record.node === this.self.node && key !== this.#session.key && phase.kind === "open";
      if (!isOther || begunMs <= this.#enrolledMs || this.#phase !== "member") continue;
      if (record.journal === this.self.journal) void this.#endRecord(key, record.session);
      else if (key < this.#session.key) void this.#giveWay(record.session);
    }
  }

  async #giveWay(to: string): Promise<void> {
    this.#session.stop();
    this.#sessionIsOver();
    await this.#endRecord(this.#session.key, this.self.session);
    this.#replaced(replacedError(this.self.node, to));
  }

  /** Others learn of a session's end from it; without it they wait. */
  async #endRecord(key: string, session: string): Promise<void> {
    try {
      await endRecord(this.#place(), key, session);
    } catch (error) {
      this.#options.log.warn(
        { key, error: asMoonportError(error).message },
        "others will wait until this session's time is up",
      );
    }
  }

  #place(): Place {
    const { world, bucket } = this.#options;
    return { world, bucket, self: this.self };
  }

  #named(): { readonly node: string; readonly session: string } {
    return { node: this.self.node, session: this.self.session };
  }

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }
}

function enrolment(options: MembersOptions, isFirst: boolean, signal: AbortSignal): EnrolmentOptions {
  const { world, bucket, settings, log } = options;
  const self = { ...options.self, ttlMs: settings.NODE_TTL_MS };
  return { world, bucket, log, self, marginMs: settings.NODE_TTL_MARGIN_MS, isFirst, signal };
}

function readerOptions({ world, bucket, settings }: MembersOptions): RecordReaderOptions {
  return { world, bucket, patienceMs: settings.NODE_TTL_MS / READINGS_PER_TTL };
}

function unread(cause: MoonportError): MoonportError {
  if (!isOwn(cause, "bucket_failed")) return cause;
  return bucketError("refused", `the nodes' records cannot be read: ${cause.message}`, { cause });
}

function fleetFull(nodes: number, nodesMax: number): MoonportError {
  return MoonportError.of("fleet_full", `the fleet has ${nodes} nodes, and NODES_MAX is ${nodesMax}`, {
    hint: "raise NODES_MAX on every node, with a longer NODE_TTL_MS where the bucket should be asked no more than before",
  });
}
