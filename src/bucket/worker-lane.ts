/**
 * The way to one worker thread of the embedded bucket: a bounded queue, batches, time-outs, and a new thread when one dies.
 *
 * Requests leave in batches, of which only so many are under way at once ({@link BatchesUnderWay}): what arrives while the thread
 * commits becomes the next group. Every request settles within its time: one that never left is refused, one that left is
 * refused if it reads and unknown if it writes.
 */
import { Worker } from "node:worker_threads";
import { assert, type ErrorCode, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { workerFile } from "../world/worker-file.js";
import type { Timer, World } from "../world/world.js";
import { BatchesUnderWay, type SizedBatch } from "./batches-under-way.js";
import { bucketError, type FailureOutcome, type WriteHint } from "./bucket.js";
import { type LoneSettings, LoneWriter } from "./lone-writer.js";
import {
  addWrites,
  type BatchOutcome,
  type FromWorker,
  type LaneRequest,
  mapAnswerBytes,
  mapRequestBytes,
  noWrites,
  Packer,
  type StorageFault,
  type StoreAnswer,
  type StoreRequest,
  type ToWorker,
  unpacker,
  type WorkerRole,
  type WorkerStart,
  type WriteColumns,
  writeOutcome,
} from "./sqlite-protocol.js";
import { storageFaultOf } from "./sqlite-schema.js";

export type LaneSettings = Pick<Settings, "BUCKET_QUEUE_MAX" | "BUCKET_TIMEOUT_MS"> & LoneSettings;
export type LaneWorld = Pick<World, "clock" | "timers" | "random" | "log">;

const BATCH_REQUESTS_MAX = 1_024;
const BATCH_BYTES_MAX = 8 * 1024 * 1024;
const RESTART_PAUSE_MS = 50;
const RESTART_PAUSE_MAX_MS = 5_000;

interface Entry {
  readonly id: number;
  readonly request: LaneRequest;
  readonly dueMs: number;
  readonly resolve: (answer: StoreAnswer) => void;
  readonly reject: (error: MoonportError) => void;
  state: "waiting" | "sent" | "settled";
}

interface BatchUnderWay extends SizedBatch {
  /** By request: whom its answer is for. */
  readonly asked: readonly (readonly Entry[])[];
  answered: number;
}

type LaneState =
  | { readonly kind: "new" }
  | { readonly kind: "opening"; readonly worker: Worker }
  | { readonly kind: "ready"; readonly worker: Worker }
  /** No thread; one is started when the timer fires. */
  | { readonly kind: "down"; readonly timer: Timer }
  | { readonly kind: "stopped" };

export class WorkerLane {
  readonly #world: LaneWorld;
  readonly #settings: LaneSettings;
  readonly #workerStart: WorkerStart;
  readonly #name: string;
  /** Of the lane that writes, where no other process does. */
  readonly #lone: LoneWriter | undefined;
  #state: LaneState = { kind: "new" };
  /** Everything not settled, oldest first: all have the same time, so the first is due first. */
  readonly #pending = new Map<number, Entry>();
  #waiting: Entry[] = [];
  readonly #underWay = new BatchesUnderWay<BatchUnderWay>();
  #lastId = 0;
  #flushPlanned = false;
  #dueTimer: Timer | undefined;
  #restarts = 0;
  #opened: { resolve(): void; reject(error: MoonportError): void; readonly untilMs: number } | undefined;
  #openFailure: { readonly message: string; readonly storage: StorageFault | undefined } | undefined;
  #drained: (() => void) | undefined;
  #stopping: Promise<void> | undefined;
  #commitsBefore = 0;
  #commits = 0;
  #garbage = false;

  constructor(world: LaneWorld, settings: LaneSettings, path: string, role: WorkerRole, isShared = false) {
    this.#world = world;
    this.#settings = settings;
    // SQLite gives up waiting for another process while the caller still listens, so that it is told and not left to guess.
    this.#workerStart = { role, path, busyTimeoutMs: Math.floor(settings.BUCKET_TIMEOUT_MS / 2), isShared };
    this.#name = `sqlite:${path}`;
    if (role === "writer" && !isShared) this.#lone = new LoneWriter(world, settings, path);
  }

  /** Transactions committed since the start, over all threads this lane had. */
  get commits(): number {
    return this.#commitsBefore + this.#commits + this.loneCommits;
  }

  /** Those of them that no thread made. */
  get loneCommits(): number {
    return this.#lone?.commits ?? 0;
  }

  /** Whether the last answer said that there is something to sweep. */
  get garbage(): boolean {
    return this.#garbage;
  }

  /** @throws MoonportError naming why the file could not be opened */
  start(): Promise<void> {
    assert(this.#state.kind === "new", "a bucket is started once");
    return new Promise((resolve, reject) => {
      const untilMs = this.#world.clock.monotonicMs() + this.#settings.BUCKET_TIMEOUT_MS;
      this.#opened = { resolve, reject, untilMs };
      this.#open();
    });
  }

  /** What is under way ends, each request within its time; then the thread closes its file and leaves. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  request(request: LaneRequest, { isLone = false }: WriteHint = {}): Promise<StoreAnswer> {
    assert(this.#state.kind !== "new", "the bucket is started before it is used");
    if (this.#stopping) return Promise.reject(bucketError("refused", `${this.#name} is stopped`));
    if (this.#pending.size >= this.#settings.BUCKET_QUEUE_MAX) {
      return Promise.reject(
        bucketError("refused", `${this.#pending.size} requests are waiting for ${this.#name}`, {
          hint: "BUCKET_QUEUE_MAX bounds them",
        }),
      );
    }
    const answer = isLone ? this.#writeHere(request) : undefined;
    if (answer !== undefined) return this.#settled(request, answer);
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      const dueMs = this.#world.clock.monotonicMs() + this.#settings.BUCKET_TIMEOUT_MS;
      const entry: Entry = { id, request, dueMs, resolve, reject, state: "waiting" };
      this.#pending.set(id, entry);
      this.#waiting.push(entry);
      this.#dueTimer ??= this.#armDue(this.#settings.BUCKET_TIMEOUT_MS);
      this.#planFlush();
    });
  }

  async #stop(): Promise<void> {
    if (this.#pending.size > 0) {
      await new Promise<void>((resolve) => {
        this.#drained = resolve;
      });
    }
    this.#dueTimer?.cancel();
    this.#opened?.reject(bucketError("refused", `${this.#name} was stopped while it was opened`));
    this.#opened = undefined;
    // Before the thread, which leaves the file as the last one does: whole, and without a WAL.
    this.#lone?.close();
    const state = this.#state;
    this.#state = { kind: "stopped" };
    if (state.kind === "down") state.timer.cancel();
    if (state.kind === "opening" || state.kind === "ready") await this.#endWorker(state.worker);
  }

  async #endWorker(worker: Worker): Promise<void> {
    const exited = new Promise<void>((resolve) => void worker.once("exit", () => resolve()));
    const impatient = this.#world.timers.after(this.#settings.BUCKET_TIMEOUT_MS, () => void worker.terminate());
    post(worker, { kind: "stop" });
    await exited;
    impatient.cancel();
  }

  #open(): void {
    const worker = new Worker(workerFile(import.meta.url, "./sqlite-worker.js"), {
      name: `moonport-bucket-${this.#workerStart.role}`,
      workerData: this.#workerStart,
      execArgv: [],
    });
    this.#state = { kind: "opening", worker };
    worker.on("message", (message: FromWorker) => this.#receive(worker, message));
    worker.on("error", (error) => {
      this.#world.log.error({ bucket: this.#name, error }, "a bucket thread failed");
      this.#openFailure = { message: error.message, storage: storageFaultOf(error) };
    });
    worker.on("exit", () => this.#ended(worker));
  }

  #receive(worker: Worker, message: FromWorker): void {
    if (message.kind === "answers") return this.#takeAnswers(message);
    if (message.kind === "unopened") {
      this.#world.log.warn({ bucket: this.#name, storage: message.storage }, `cannot open it: ${message.message}`);
      this.#openFailure = message;
      return;
    }
    if (this.#state.kind !== "opening") return;
    this.#state = { kind: "ready", worker };
    this.#opened?.resolve();
    this.#opened = undefined;
    this.#planFlush();
  }

  /** The thread is gone: what it had been given is settled as far as that can be known, and another takes its place. */
  #ended(worker: Worker): void {
    const state = this.#state;
    if ((state.kind !== "opening" && state.kind !== "ready") || state.worker !== worker) return;
    this.#commitsBefore += this.#commits;
    this.#commits = 0;
    for (const { asked } of this.#underWay.takeAll()) {
      for (const entry of asked.flat()) this.#fail(entry, outcomeOf(entry), `the thread of ${this.#name} ended`);
    }
    if (this.#startFails()) return;
    const pauseMs = Math.min(RESTART_PAUSE_MS * 2 ** this.#restarts, RESTART_PAUSE_MAX_MS);
    this.#restarts += 1;
    const jitteredMs = pauseMs * (0.5 + this.#world.random.fraction() / 2);
    this.#state = { kind: "down", timer: this.#world.timers.after(jitteredMs, () => this.#open()) };
  }

  /** Whether the first opening is given up: at once, unless another process merely held the file. */
  #startFails(): boolean {
    const opened = this.#opened;
    const failure = this.#openFailure;
    this.#openFailure = undefined;
    if (!opened) return false;
    if (failure?.storage === "busy" && this.#world.clock.monotonicMs() < opened.untilMs) return false;
    this.#opened = undefined;
    this.#state = { kind: "stopped" };
    opened.reject(openError(this.#name, failure?.message ?? "its thread ended", failure?.storage));
    return true;
  }

  /** Only while the thread has nothing: not even what has timed out and may happen yet. */
  #writeHere(request: LaneRequest): StoreAnswer | undefined {
    const isIdle = this.#state.kind === "ready" && this.#pending.size === 0 && this.#underWay.isEmpty;
    if (this.#lone === undefined || !isIdle || request.kind !== "write") return undefined;
    const answer = this.#lone.write(request);
    this.#garbage ||= this.#lone.takeGarbage();
    return answer?.kind === "outcomes" ? writeOutcome(answer.outcomes[0] as BatchOutcome) : answer;
  }

  #settled(request: LaneRequest, answer: StoreAnswer): Promise<StoreAnswer> {
    if (answer.kind !== "failed") return Promise.resolve(answer);
    return Promise.reject(this.#errorOf(request, answer.outcome, answer.message, answer.storage));
  }

  #planFlush(): void {
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    queueMicrotask(() => {
      this.#flushPlanned = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#state.kind !== "ready") return;
    while (this.#underWay.mayLeave(this.#waiting.length)) this.#sendBatch(this.#state.worker);
  }

  /** Writes that stand next to each other go as one request. */
  #sendBatch(worker: Worker): void {
    const packer = new Packer();
    const asked: Entry[][] = [];
    const requests: StoreRequest<number>[] = [];
    let together: { readonly columns: WriteColumns<number>; readonly entries: Entry[] } | undefined;
    let taken = 0;
    let sent = 0;
    for (const entry of this.#waiting) {
      if (taken >= BATCH_REQUESTS_MAX || packer.sizeBytes >= BATCH_BYTES_MAX) break;
      taken += 1;
      if (entry.state === "settled") continue;
      entry.state = "sent";
      sent += 1;
      if (entry.request.kind !== "write") {
        together = undefined;
        asked.push([entry]);
        requests.push(mapRequestBytes(entry.request, packer.add));
        continue;
      }
      if (together === undefined) {
        together = { columns: noWrites(), entries: [] };
        asked.push(together.entries);
        requests.push(together.columns);
      }
      together.entries.push(entry);
      addWrites(together.columns, entry.request.writes, packer.add);
    }
    this.#waiting = this.#waiting.slice(taken);
    if (asked.length === 0) return;
    const batch = ++this.#lastId;
    this.#underWay.add(batch, { asked, answered: 0, requests: sent, bytes: packer.sizeBytes });
    post(worker, { kind: "batch", batch, requests, blob: packer.blob() });
  }

  #takeAnswers(message: FromWorker & { kind: "answers" }): void {
    const batch = this.#underWay.get(message.batch);
    if (!batch) return;
    this.#restarts = 0;
    this.#commits = message.commits;
    this.#garbage = message.garbage;
    const bytesOf = unpacker(message.blob);
    for (const packed of message.answers) {
      this.#answerAll(batch.asked[batch.answered++] ?? [], mapAnswerBytes(packed, bytesOf));
    }
    if (!message.last) return;
    this.#underWay.delete(message.batch);
    this.#planFlush();
  }

  #answerAll(entries: readonly Entry[], answer: StoreAnswer): void {
    for (const [index, entry] of entries.entries()) {
      const isOneOfMany = answer.kind === "outcomes" && entry.request.kind === "write";
      this.#answer(entry, isOneOfMany ? writeOutcome(answer.outcomes[index] as BatchOutcome) : answer);
    }
  }

  #answer(entry: Entry, answer: StoreAnswer): void {
    if (answer.kind === "failed") return this.#fail(entry, answer.outcome, answer.message, answer.storage);
    if (this.#settle(entry)) entry.resolve(answer);
  }

  #fail(entry: Entry, outcome: FailureOutcome, message: string, storage?: StorageFault): void {
    if (this.#settle(entry)) entry.reject(this.#errorOf(entry.request, outcome, message, storage));
  }

  #errorOf({ kind }: LaneRequest, outcome: FailureOutcome, message: string, storage?: StorageFault): MoonportError {
    const hint = storage === undefined ? undefined : STORAGE_HINTS[storage];
    return bucketError(outcome, `${kind} in ${this.#name}: ${message}`, {
      ...(hint === undefined ? {} : { hint }),
      ...(storage === undefined ? {} : { details: { storage } }),
    });
  }

  #settle(entry: Entry): boolean {
    if (entry.state === "settled") return false;
    entry.state = "settled";
    this.#pending.delete(entry.id);
    if (this.#pending.size === 0) this.#drained?.();
    return true;
  }

  #armDue(delayMs: number): Timer {
    return this.#world.timers.after(delayMs, () => this.#failDue());
  }

  #failDue(): void {
    this.#dueTimer = undefined;
    const nowMs = this.#world.clock.monotonicMs();
    for (const entry of this.#pending.values()) {
      if (entry.dueMs > nowMs) {
        this.#dueTimer = this.#armDue(entry.dueMs - nowMs);
        return;
      }
      this.#fail(entry, outcomeOf(entry), `no answer within ${this.#settings.BUCKET_TIMEOUT_MS} ms`);
    }
    // What timed out before it left must not be kept for a thread that may never come.
    this.#waiting = this.#waiting.filter((entry) => entry.state !== "settled");
  }
}

function post(worker: Worker, message: ToWorker): void {
  worker.postMessage(message, message.kind === "batch" ? [message.blob] : []);
}

const READS: readonly LaneRequest["kind"][] = ["get", "get_many", "open", "part", "list"];

/** What is known of a request that got no answer. */
function outcomeOf(entry: Entry): FailureOutcome {
  return entry.state === "waiting" || READS.includes(entry.request.kind) ? "refused" : "unknown";
}

const STORAGE_HINTS: Readonly<Record<StorageFault, string>> = {
  full: "the disk that holds the bucket is full; free some space",
  readonly: "the bucket's file or folder is not writable",
  busy: "another process held the bucket's file for too long",
  corrupt: "the bucket's file is damaged; restore it from a copy",
  failed: "the disk that holds the bucket reported an error",
};

const OPEN_CODES: Readonly<Record<StorageFault, ErrorCode>> = {
  full: "storage_full",
  readonly: "storage_readonly",
  busy: "bucket_failed",
  corrupt: "bucket_unusable",
  failed: "storage_failed",
};

function openError(name: string, message: string, storage: StorageFault | undefined): MoonportError {
  const code = storage === undefined ? "bucket_unusable" : OPEN_CODES[storage];
  return MoonportError.of(
    code,
    `cannot open ${name}: ${message}`,
    storage === undefined ? {} : { hint: STORAGE_HINTS[storage] },
  );
}
