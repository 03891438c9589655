/**
 * A subscription over event streams that comes back by itself: when the connection breaks, the node restarts, or the stream
 * ends for any reason but the object's own end, it connects again from the number it has come to.
 *
 * It tells its sink what the hub would, as if it had been one subscription all along: `subscribed` once (again only where the
 * object's last number turns out to be lower), a gap where the node no longer keeps what was missed.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { Delivery, EndReason, ReadingCall, Sink, SubscribeRequest, Subscription } from "../realtime/contract.js";
import { SETTINGS } from "../settings/settings.js";
import type { PlainObject, PlainValue } from "../values.js";
import { STREAM_NAMES, type StreamMessage } from "../wire/event-stream.js";
import { errorOf } from "../wire/problem.js";
import { parseWireJson, wireJson } from "../wire/wire-json.js";
import { backoffMs } from "../world/backoff.js";
import type { Timer, World } from "../world/world.js";
import { EventStream, type StreamListener, type StreamTarget } from "./event-stream.js";

export type StreamRequest = Omit<SubscribeRequest, "caller">;

export interface StreamSubscriptionOptions {
  readonly world: Pick<World, "random" | "timers">;
  /** The object's stream, without a query. Asked before each further connection: a node that restarted may answer elsewhere. */
  readonly target: () => Promise<StreamTarget>;
  /** It was cut off and will try again. */
  readonly interrupted: (cause: MoonportError) => void;
}

const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 5_000;
/** A message wraps a value in a few levels of its own. */
const DEPTH_MAX = SETTINGS.VALUE_DEPTH_MAX.max + 8;

export class StreamSubscription implements Subscription, StreamListener {
  readonly #options: StreamSubscriptionOptions;
  readonly #request: StreamRequest;
  readonly #sink: Sink;
  #stream: EventStream | undefined;
  #retry: Timer | undefined;
  #failures = 0;
  /** Unknown until the node first says it. */
  #after: number | undefined;
  /** What the connection under way was asked to go on after. */
  #askedAfter: number | undefined;
  #isSubscribed = false;
  #isClosed = false;

  constructor(options: StreamSubscriptionOptions, request: StreamRequest, sink: Sink) {
    this.#options = options;
    this.#request = request;
    this.#sink = sink;
  }

  get after(): number {
    return this.#after ?? 0;
  }

  /** The first connection, which may be refused; later ones are its own affair. @throws MoonportError */
  async open(target: StreamTarget): Promise<this> {
    await this.#connect(target);
    return this;
  }

  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
    this.#stream?.close();
  }

  // What the stream tells

  message(message: StreamMessage): void {
    this.reached(message.id);
    const data = parseWireJson(message.data, "a message of the event stream", DEPTH_MAX);
    const fields = data as PlainObject;
    switch (message.name) {
      case STREAM_NAMES.subscribed:
        return this.#subscribed(Number(fields.after));
      case STREAM_NAMES.snapshot:
        return this.#deliver({ kind: "snapshot", value: fields.value ?? null, number: Number(fields.number) });
      case STREAM_NAMES.gap:
        return this.#deliver({ kind: "gap", from: Number(fields.from), first: Number(fields.first) });
      case STREAM_NAMES.ended:
        return this.#ended(fields);
      case STREAM_NAMES.event:
        return this.#event(message, String(fields.name), fields.data ?? null);
      default:
        return this.#event(message, message.name, data);
    }
  }

  reached(id: string): void {
    if (/^[0-9]+$/.test(id)) this.#after = Number(id);
  }

  room(): Promise<void> | undefined {
    return this.#sink.room();
  }

  /** A refusal that a later try would meet again ends it; anything else is tried again, for as long as it takes. */
  closed(cause: MoonportError): void {
    if (this.#isClosed) return;
    if (!cause.retryable) return this.#end("failed", cause);
    this.#options.interrupted(cause);
    this.#failures++;
    const { random, timers } = this.#options.world;
    const pauseMs = backoffMs(this.#failures, RETRY_FIRST_MS, RETRY_MAX_MS, random.fraction());
    this.#retry = timers.after(Math.max(pauseMs, cause.retryAfterMs ?? 0), () => {
      void this.#comeBack();
    });
  }

  async #comeBack(): Promise<void> {
    try {
      const target = await this.#options.target();
      if (!this.#isClosed) await this.#connect(target);
    } catch (error) {
      this.closed(asMoonportError(error));
    }
  }

  async #connect({ path, ...rest }: StreamTarget): Promise<void> {
    this.#askedAfter = this.#after;
    const target = { ...rest, path: `${path}${this.#query()}` };
    this.#stream = new EventStream(this.#options.world.timers, target, this);
    await this.#stream.open();
  }

  #query(): string {
    const { from, names, snapshotAfterGap } = this.#request;
    const number = this.#after ?? (from.kind === "after" ? from.number : undefined);
    const fresh = from.kind === "snapshot" ? from.reading : undefined;
    const parts = [
      ...(number === undefined ? [] : [`after=${number}`]),
      ...(names === undefined ? [] : [`names=${encodeURIComponent(JSON.stringify(names))}`]),
      ...snapshotQuery(number === undefined ? fresh : snapshotAfterGap),
    ];
    return parts.length === 0 ? "" : `?${parts.join("&")}`;
  }

  #subscribed(after: number): void {
    if (this.#isSubscribed && after === this.#askedAfter) return;
    this.#isSubscribed = true;
    this.#deliver({ kind: "subscribed", after });
  }

  #event({ id, atMs = 0 }: StreamMessage, name: string, data: PlainValue): void {
    this.#failures = 0;
    this.#deliver({ kind: "event", event: { number: Number(id), name, data, atMs, encoded: new Map() } });
  }

  #ended(fields: PlainObject): void {
    const reason = fields.reason as EndReason;
    if (reason === "destroyed") return this.#end(reason);
    this.#stream?.close();
    this.closed(errorOf(fields.error) ?? MoonportError.of("node_unreachable", `the node ended the stream (${reason})`));
  }

  #end(reason: EndReason, error?: MoonportError): void {
    this.close();
    this.#deliver({ kind: "ended", reason, after: this.after, ...(error && { error }) });
  }

  #deliver(delivery: Delivery): void {
    this.#sink.deliver(delivery);
  }
}

function snapshotQuery(reading: ReadingCall | undefined): string[] {
  if (reading === undefined) return [];
  return [`snapshot=${encodeURIComponent(reading.method)}`, `args=${encodeURIComponent(wireJson([...reading.args]))}`];
}
