/**
 * Subscriptions over Server-Sent Events: `GET /v1/{app}/{Class}/{key}/-/events`, documented in docs/subscriptions.md.
 *
 * A browser's EventSource comes back by itself and says the last id it saw; every message that moves the position carries one,
 * so it resumes where it was. What the client does not take fast enough waits in a bounded buffer and then ends the stream.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Authenticator, Principal } from "../auth/contract.js";
import { LastingRight, renewed } from "../auth/lasting-right.js";
import { openAuthenticator } from "../auth/open-auth.js";
import { callerOf, checkMethod } from "../auth/principal-calls.js";
import { asMoonportError, MoonportError } from "../errors.js";
import { checkMethodName, identityOf, type ObjectIdentity } from "../identity.js";
import type {
  Delivery,
  EndReason,
  LiveApi,
  LiveEvent,
  ReadingCall,
  Sink,
  SubscribeFrom,
  SubscribeRequest,
  Subscription,
} from "../realtime/contract.js";
import type { Settings } from "../settings/settings.js";
import { EVENT_STREAM_TYPE, endedText, eventText, keepAliveText, saidText } from "../wire/event-stream.js";
import { problemOf } from "../wire/problem.js";
import { parseWireJson } from "../wire/wire-json.js";
import { deferred } from "../world/deferred.js";
import type { Timer, World } from "../world/world.js";
import type { HttpAnswer, HttpHandler, HttpOperation, HttpRequest } from "./http-handler.js";
import { allowMethods, checkParameters, type RequestLine } from "./request-line.js";
import { RightsWalk } from "./rights-walk.js";

export interface EventStreamContext {
  readonly live: Pick<LiveApi, "subscribe">;
  readonly settings: Settings;
  readonly world: Pick<World, "timers">;
  /** Everybody may do everything without. */
  readonly auth?: Authenticator;
}

/** What the request line and its headers ask for. */
type Asked = Omit<SubscribeRequest, "caller">;

/** Browsers wait this long before they come back. */
const RETRY_TEXT = "retry: 1000\n\n";

export class EventStreams implements HttpHandler {
  readonly #context: EventStreamContext;
  /** Those that are asked for and do not stand yet among them. */
  readonly #open = new Set<EventStream>();
  readonly #walk: RightsWalk;
  #isStopping = false;

  constructor(context: EventStreamContext) {
    this.#context = context;
    this.#walk = new RightsWalk(context.auth ?? openAuthenticator, context.world, () => this.#renewals());
  }

  operation(line: RequestLine): HttpOperation | undefined {
    const { segments } = line;
    if (segments.length !== 6 || segments[0] !== "v1" || segments[4] !== "-" || segments[5] !== "events")
      return undefined;
    allowMethods(line, ["GET"]);
    checkParameters(line, ["after", "names", "snapshot", "args"]);
    const [, app = "", className = "", key = ""] = segments;
    const object = identityOf(app, className, key);
    return {
      check: (principal) => checkRights(principal, object, line.query.get("snapshot")),
      answer: (request) => this.#answer(object, request),
    };
  }

  stop(): void {
    this.#isStopping = true;
    this.#walk.stop();
    for (const stream of this.#open) stream.end("stopping");
  }

  async #answer(object: ObjectIdentity, request: HttpRequest): Promise<HttpAnswer> {
    const { live } = this.#context;
    const { principal, line } = request;
    const asked = askedOf(object, request, this.#context.settings);
    const snapshot = line.query.get("snapshot");
    const right = new LastingRight(principal, (who) => checkRights(who, object, snapshot), snapshot !== null);
    const stream = new EventStream(this.#context, { asked, principal, right }, () => this.#open.delete(stream));
    this.#open.add(stream);
    const asking = live.subscribe({ ...asked, caller: callerOf(principal) }, stream);
    asking.then(
      (subscription) => stream.stands(subscription),
      () => stream.refused(),
    );
    if (this.#isStopping) stream.end("stopping");
    // A door that stops waits for no object: what has not come to stand by then ends at once.
    await Promise.race([asking, stream.over]);
    if (request.caller.isGone()) {
      stream.close();
      throw MoonportError.of("caller_gone", "the caller went away before the subscription stood", {
        object: object.id,
      });
    }
    return {
      kind: "open",
      take: (response) => {
        stream.begin(response);
        // Tokens may have changed since the request came.
        stream.renew();
      },
    };
  }

  *#renewals(): Generator<void> {
    for (const stream of [...this.#open]) {
      stream.renew();
      yield;
    }
  }
}

/** What a stream is made of. */
interface StreamParts {
  readonly asked: Asked;
  readonly principal: Principal;
  readonly right: LastingRight;
}

type Phase =
  /** The hub may tell it something before the response is its own. */
  | { readonly kind: "waiting"; readonly texts: (string | Uint8Array)[] }
  /** It ended before that: the response will say so. */
  | { readonly kind: "over"; readonly texts: readonly (string | Uint8Array)[] }
  | { readonly kind: "open"; readonly response: ServerResponse; timer: Timer }
  | { readonly kind: "closed" };

class EventStream implements Sink {
  readonly #context: EventStreamContext;
  readonly #parts: StreamParts;
  readonly #bufferBytesMax: number;
  readonly #sendsSnapshotAfterGap: boolean;
  readonly #forget: () => void;
  readonly #begun = deferred();
  readonly #over = deferred();
  #subscription: Subscription | undefined;
  #phase: Phase = { kind: "waiting", texts: [] };
  /** What to resume from, as the client knows it. */
  #after: number | undefined;
  /** A gap was told and its snapshot was not: who comes back now must hear of the gap again. */
  #owesSnapshot = false;

  constructor(context: EventStreamContext, parts: StreamParts, forget: () => void) {
    this.#context = context;
    this.#parts = parts;
    this.#bufferBytesMax = context.settings.SOCKET_BUFFER_BYTES_MAX;
    this.#sendsSnapshotAfterGap = parts.asked.snapshotAfterGap !== undefined;
    this.#forget = forget;
  }

  /** Resolves when it ends before its response is its own. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  stands(subscription: Subscription): void {
    if (this.#phase.kind === "waiting") this.#subscription = subscription;
    else subscription.close();
  }

  /** It will never stand, and somebody else says why. */
  refused(): void {
    if (this.#phase.kind === "waiting") this.close();
  }

  begin(response: ServerResponse): void {
    const isOver = this.#phase.kind === "over";
    const texts = "texts" in this.#phase ? this.#phase.texts : [];
    this.#phase = { kind: "open", response, timer: this.#keepAliveLater() };
    response.once("close", () => this.close());
    response.writeHead(200, {
      "content-type": `${EVENT_STREAM_TYPE}; charset=utf-8`,
      // Who reads to the end of the stream has nothing more to say on it, and a door that stops must not wait for it.
      connection: "close",
      // For a proxy in front: pass on what comes when it comes.
      "x-accel-buffering": "no",
    });
    response.write(RETRY_TEXT);
    for (const text of texts) response.write(text);
    this.#begun.resolve();
    if (isOver) response.end();
    if (isOver || response.destroyed) this.close();
  }

  /** Tokens have changed: it goes on if it would be let in as it was. */
  renew(): void {
    if (this.#phase.kind === "over" || this.#phase.kind === "closed") return;
    const { principal, right } = this.#parts;
    try {
      right.renew(renewed(principal));
    } catch (error) {
      this.end("withdrawn", this.#after, asMoonportError(error));
    }
  }

  end(reason: EndReason, after = this.#after, error?: Error): void {
    const end = { reason, after: after ?? null, ...(error && { error: problemOf(asMoonportError(error)) }) };
    this.#write(endedText(end, this.#owesSnapshot ? undefined : after));
    if (this.#phase.kind === "waiting") {
      this.#phase = { kind: "over", texts: this.#phase.texts };
      this.#subscription?.close();
      return this.#over.resolve();
    }
    if (this.#phase.kind !== "open") return;
    this.#phase.response.end();
    this.close();
  }

  isFull(): boolean {
    return this.#phase.kind === "open" && this.#phase.response.writableLength >= this.#bufferBytesMax;
  }

  room(): Promise<void> | undefined {
    if (this.#phase.kind === "waiting") return this.#begun.promise;
    if (this.#phase.kind !== "open") return undefined;
    const { response } = this.#phase;
    if (response.writableLength < this.#bufferBytesMax / 2) return undefined;
    return new Promise((resolve) => {
      const look = (): void => {
        response.off("drain", look);
        response.off("close", look);
        resolve();
      };
      response.on("drain", look);
      response.on("close", look);
    });
  }

  deliver(delivery: Delivery): void {
    switch (delivery.kind) {
      case "event":
        this.#after = delivery.event.number;
        return this.#write(encodedEvent(delivery.event));
      case "subscribed":
        this.#after = delivery.after;
        return this.#write(saidText("subscribed", { after: delivery.after }, delivery.after));
      case "snapshot": {
        const { value, number } = delivery;
        this.#after = number;
        this.#owesSnapshot = false;
        return this.#write(saidText("snapshot", { value, number }, number));
      }
      case "gap":
        this.#owesSnapshot = this.#sendsSnapshotAfterGap;
        return this.#write(saidText("gap", { from: delivery.from, first: delivery.first }));
      case "ended":
        return this.end(delivery.reason, delivery.after, delivery.error);
      case "view":
      case "view_failed":
        return;
    }
  }

  #keepAliveLater(): Timer {
    return this.#context.world.timers.after(this.#context.settings.SSE_KEEPALIVE_MS, () => this.#keepAlive());
  }

  /** Also tells how far it has come where the filter passes over events: they count in what is resumed from. */
  #keepAlive(): void {
    if (this.#phase.kind !== "open") return;
    this.#phase.timer = this.#keepAliveLater();
    this.#after = this.#subscription?.after;
    if (this.#phase.response.writableLength === 0)
      this.#write(keepAliveText(this.#owesSnapshot ? undefined : this.#after));
  }

  #write(text: string | Uint8Array): void {
    if (this.#phase.kind === "waiting") this.#phase.texts.push(text);
    else if (this.#phase.kind === "open") this.#phase.response.write(text);
  }

  close(): void {
    if (this.#phase.kind === "closed") return;
    if (this.#phase.kind === "open") this.#phase.timer.cancel();
    this.#phase = { kind: "closed" };
    this.#forget();
    this.#subscription?.close();
  }
}

/** Encoded once, however many streams it goes into. */
function encodedEvent(event: LiveEvent): Uint8Array {
  const known = event.encoded.get(EVENT_STREAM_TYPE);
  if (typeof known === "object") return known;
  const bytes = Buffer.from(eventText(event), "utf8");
  event.encoded.set(EVENT_STREAM_TYPE, bytes);
  return bytes;
}

/** @throws MoonportError `forbidden` */
function checkRights(principal: Principal, { app, className, key }: ObjectIdentity, snapshot: string | null): void {
  principal.check({ right: "subscribe", app, className, key });
  if (snapshot !== null) checkMethod(principal, { app, className, key, method: snapshot });
}

/**
 * Where a returning client was goes before what its URL says, because an EventSource keeps its URL.
 * @throws MoonportError `bad_request`, `bad_json`, `bad_name`
 */
function askedOf(object: ObjectIdentity, { line, headers }: HttpRequest, settings: Settings): Asked {
  const reading = readingOf(line.query, settings);
  const number = lastEventIdOf(headers) ?? numberOf(line.query.get("after"), "after");
  const names = namesOf(line.query.get("names"), settings);
  return {
    object,
    from: fromOf(number, reading),
    ...(names !== undefined && { names }),
    ...(reading !== undefined && { snapshotAfterGap: reading }),
  };
}

function fromOf(number: number | undefined, reading: ReadingCall | undefined): SubscribeFrom {
  if (number !== undefined) return { kind: "after", number };
  return reading === undefined ? { kind: "now" } : { kind: "snapshot", reading };
}

function lastEventIdOf(headers: IncomingHttpHeaders): number | undefined {
  const id = headers["last-event-id"];
  if (Array.isArray(id)) throw MoonportError.of("bad_request", "Last-Event-ID is given more than once");
  return id === undefined || id === "" ? undefined : numberOf(id, "Last-Event-ID");
}

function numberOf(text: string | null, what: string): number | undefined {
  if (text === null) return undefined;
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw MoonportError.of("bad_request", `${what} is the number of an event, a whole number from 0`);
}

/** `a,b`, or a JSON array for names that hold commas. */
function namesOf(text: string | null, settings: Settings): readonly string[] | undefined {
  if (text === null) return undefined;
  if (!text.startsWith("[")) return text.split(",");
  const names = parseWireJson(text, "names", settings.VALUE_DEPTH_MAX);
  if (Array.isArray(names) && names.every((name) => typeof name === "string")) return names;
  throw MoonportError.of("bad_request", "names are a,b or a JSON array of strings");
}

function readingOf(query: URLSearchParams, settings: Settings): ReadingCall | undefined {
  const method = query.get("snapshot");
  const text = query.get("args");
  if (method === null) {
    if (text === null) return undefined;
    throw MoonportError.of("bad_request", "args are the arguments of a snapshot, and none is asked for");
  }
  checkMethodName(method);
  const args = text === null ? [] : parseWireJson(text, "args", settings.VALUE_DEPTH_MAX + 1);
  if (Array.isArray(args)) return { method, args };
  throw MoonportError.of("bad_request", "args is no array of arguments", {
    hint: "put a single argument into brackets",
  });
}
