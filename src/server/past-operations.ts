/** What the routes about an object's past take and give. */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { MoonportError } from "../errors.js";
import type { ExportedDatabase, PointInTime, Restoration } from "../node-api.js";
import type { PlainObject, PlainValue } from "../values.js";
import { CUT_HEADER, SEQ_HEADER } from "../wire/http-headers.js";
import type { Logger } from "../world/logger.js";
import type { HttpAnswer } from "./http-handler.js";

const POINT_HINT = '{"seq": 5}, or {"atMs": 1767225600000}: milliseconds since 1970';

/** @throws MoonportError `bad_request` */
export function limitOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : wholeNumber(text, "limit");
}

/** @throws MoonportError `bad_request` */
export function pointOf(route: {
  readonly seq: string | undefined;
  readonly atMs: string | undefined;
}): PointInTime | undefined {
  const { seq, atMs } = route;
  if (seq !== undefined && atMs !== undefined)
    throw MoonportError.of("bad_request", "give either seq or atMs, not both");
  if (seq !== undefined) return { seq: wholeNumber(seq, "seq") };
  return atMs === undefined ? undefined : { atMs: wholeNumber(atMs, "atMs") };
}

/** @throws MoonportError `bad_request`, `bad_option` */
export function restorationOf(body: PlainObject): Restoration {
  return { ...timersOf(body, ["at", "timers"]), at: pointIn(body.at) };
}

/** @throws MoonportError `bad_request`, `bad_option` */
export function forkOf(body: PlainObject): Partial<Restoration> & { readonly to: string } {
  const { at, to } = body;
  if (typeof to !== "string") throw MoonportError.of("bad_request", "to is the key of the object that is to be made");
  return { ...timersOf(body, ["at", "timers", "to"]), ...(at !== undefined && { at: pointIn(at) }), to };
}

function timersOf({ timers, ...rest }: PlainObject, known: readonly string[]): Pick<Restoration, "timers"> {
  const unknown = Object.keys(rest).find((name) => !known.includes(name));
  if (unknown !== undefined) throw MoonportError.of("bad_option", `the body has no field called "${unknown}"`);
  if (timers !== undefined && timers !== "keep" && timers !== "drop") {
    throw MoonportError.of("bad_request", 'timers is "keep" or "drop"');
  }
  return timers === undefined ? {} : { timers };
}

/** A file of any size, as fast as whoever asked takes it. */
export function databaseAnswer({ seq, atMs, bytes, parts }: ExportedDatabase, log: Logger): HttpAnswer {
  return {
    kind: "open",
    take: (response) => {
      response.writeHead(200, {
        "content-type": "application/vnd.sqlite3",
        "content-length": bytes,
        [SEQ_HEADER]: seq,
        ...(atMs !== undefined && { [CUT_HEADER]: atMs }),
      });
      pipeline(Readable.from(parts), response).catch((error: Error) => {
        log.debug({ error: error.message }, "a database was not taken to its end");
      });
    },
  };
}

function pointIn(at: PlainValue | undefined): PointInTime {
  const fields = typeof at === "object" && at !== null && !Array.isArray(at) ? Object.entries(at) : [];
  const [[name, value] = []] = fields;
  if (fields.length === 1 && (name === "seq" || name === "atMs")) {
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) {
      return name === "seq" ? { seq: value } : { atMs: value };
    }
  }
  throw MoonportError.of("bad_request", "at is a seq or a time", { hint: POINT_HINT });
}

function wholeNumber(text: string, name: string): number {
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw MoonportError.of("bad_request", `${name} is a whole number`);
}
