/**
 * Sends a bucket's requests: through the gate, within their time, counted, and each failure read for what it proves.
 *
 * Requests that may be repeated freely are, a bounded number of times within the same time; they pass the gate at each try,
 * so repeats never add to what a throttling store is asked.
 */
import type { Settings } from "../../settings/settings.js";
import { sleep, type World } from "../../world/world.js";
import { type MutableRequestCounts, noRequests, type RequestKind } from "../request-counts.js";
import { type GateSettings, type PassEnd, RequestGate } from "./request-gate.js";
import { Call } from "./s3-api.js";
import { failedRequest, outcomeOf, type S3Failure, S3RequestFailed, s3Failure } from "./s3-failure.js";
import type { S3Location } from "./s3-location.js";

export type RequestWorld = Pick<World, "clock" | "timers" | "random">;
export type RequestSettings = GateSettings & Pick<Settings, "BUCKET_TRIES_MAX">;

const NOT_FOUND = 404;
const FIRST_PAUSE_MS = 50;
const PAUSE_MAX_MS = 1_000;

export class S3Requests {
  readonly counts: MutableRequestCounts = noRequests();
  readonly #world: RequestWorld;
  readonly #settings: RequestSettings;
  readonly #location: S3Location;
  readonly #name: string;
  readonly #gate: RequestGate;
  readonly #stopping = new AbortController();

  constructor(world: RequestWorld, settings: RequestSettings, location: S3Location, name: string) {
    this.#world = world;
    this.#settings = settings;
    this.#location = location;
    this.#name = name;
    this.#gate = new RequestGate(world, settings, name);
  }

  /** Until when a request that begins now may take. */
  dueMs(): number {
    return this.#world.clock.monotonicMs() + this.#settings.BUCKET_TIMEOUT_MS;
  }

  /**
   * One try.
   * @throws S3RequestFailed; MoonportError `bucket_failed` (refused) when it was not sent at all
   */
  async once<T>(kind: RequestKind, dueMs: number, act: (call: Call) => Promise<T>): Promise<T> {
    const pass = await this.#gate.enter(dueMs);
    const call = new Call();
    const timer = this.#world.timers.after(Math.max(0, dueMs - this.#world.clock.monotonicMs()), () => call.timeOut());
    this.counts[kind] += 1;
    let end: PassEnd = { kind: "answered" };
    try {
      return await act(call);
    } catch (thrown) {
      const failed = this.#failed(thrown, call);
      end = this.#count(failed.failure);
      throw failed;
    } finally {
      timer.cancel();
      pass.end(end);
    }
  }

  /** As `once`, again and again while that may help, as long as nothing speaks against it. */
  async repeated<T>(kind: RequestKind, act: (call: Call) => Promise<T>): Promise<T> {
    const dueMs = this.dueMs();
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.once(kind, dueMs, act);
      } catch (error) {
        if (!mayHelpToRepeat(error) || !(await this.pause(tries, dueMs))) throw error;
      }
    }
  }

  /** Waits before the next try, longer after each. @returns whether there may be one */
  async pause(tries: number, dueMs: number): Promise<boolean> {
    if (tries >= this.#settings.BUCKET_TRIES_MAX) return false;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), PAUSE_MAX_MS) * this.#world.random.fraction();
    if (this.#world.clock.monotonicMs() + pauseMs >= dueMs) return false;
    await sleep(this.#world, pauseMs, this.#stopping.signal);
    return true;
  }

  /** Whatever a request threw, as it leaves the bucket. A read without an answer did nothing, so it is refused. */
  toError(error: unknown, what: string, effect: "reads" | "writes"): unknown {
    if (!(error instanceof S3RequestFailed)) return error;
    const outcome = effect === "reads" ? "refused" : outcomeOf(error.failure);
    return failedRequest(`${what} in ${this.#name}`, error, outcome);
  }

  /** Refuses what has not been sent; resolves when the rest has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#gate.close();
  }

  #failed(thrown: unknown, call: Call): S3RequestFailed {
    if (thrown instanceof S3RequestFailed) return thrown;
    if (!call.timedOut) {
      const context = { sent: call.sent, wallMs: this.#world.clock.wallMs(), location: this.#location };
      return new S3RequestFailed(s3Failure(thrown, context), thrown);
    }
    const message = `no answer within ${this.#settings.BUCKET_TIMEOUT_MS} ms`;
    const kind = call.sent ? "unknown" : "refused";
    return new S3RequestFailed({ kind, message, code: undefined, status: undefined }, thrown);
  }

  #count(failure: S3Failure): PassEnd {
    if (failure.kind === "absent" || failure.kind === "condition") return { kind: "answered" };
    this.counts.errors += 1;
    if (failure.kind !== "throttled") return { kind: "failed" };
    this.counts.throttled += 1;
    return failure;
  }
}

/** Nothing was asked of the store, or it may answer otherwise next time. */
function mayHelpToRepeat(error: unknown): boolean {
  if (!(error instanceof S3RequestFailed)) return false;
  const { kind, status, needsOperator } = error.failure;
  // What is not there, a key or an upload, will not be there at the next try.
  return kind !== "condition" && status !== NOT_FOUND && needsOperator !== true;
}
