/**
 * What a client sends, field by field, before anything acts on it.
 *
 * Two kinds of faults: a frame that names what it asks for by a number is answered there, with a coded error; one that cannot
 * be answered (no frame at all, no number, a type that there is not) is thrown out, and costs the socket.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { ReadingCall, SubscribeFrom } from "../realtime/contract.js";
import { SETTINGS } from "../settings/settings.js";
import type { PlainObject, PlainValue } from "../values.js";
import { CALL_ID_GRAMMAR, isCallId } from "./call-id.js";
import type { FrameCodec, Message } from "./codec.js";
import { ASK_FORM, COMMAND_FORM, isCommand, isDelayAsk } from "./delay-fields.js";
import type { ClientFrame } from "./frames.js";

export type Incoming =
  | { readonly kind: "frame"; readonly frame: ClientFrame }
  /** To be answered with an error of that number; the socket stays. */
  | { readonly kind: "refused"; readonly id: number; readonly error: MoonportError };

/** A frame, `from`, a reading call and the list of its arguments stand around a value. */
const DEPTH_AROUND_VALUES = 4;
const TOKEN_CHARACTERS_MAX = 8_192;
const NAMES_MAX = 100;
const NAME_CHARACTERS_MAX = 256;

/** @throws MoonportError `bad_json`, `bad_request`, `bad_option` for what cannot be answered */
export function readClientFrame(codec: FrameCodec, message: Message, valueDepthMax: number): Incoming {
  const { value, fault } = codec.decode(message, valueDepthMax + DEPTH_AROUND_VALUES);
  if (!isTable(value)) throw malformed("a frame is a map with a type");
  const { id } = value;
  try {
    if (fault !== undefined) throw fault;
    checkFields(value);
    return { kind: "frame", frame: frameOf(value) };
  } catch (error) {
    if (!(error instanceof MoonportError) || !isAnswered(value) || !isNumber(id)) throw error;
    return { kind: "refused", id, error };
  }
}

interface Shape {
  readonly required: readonly string[];
  /** All that it may have, with what is asked of each. */
  readonly checks: ReadonlyMap<string, Check>;
}

/** What is wrong with a field's value. */
type Check = (value: PlainValue) => string | undefined;

const TARGET = ["class", "key"] as const;

/** Frames whose number an answer carries. */
const ANSWERED: ReadonlySet<string> = new Set<ClientFrame["type"]>([
  "call",
  "find",
  "send",
  "timers",
  "delay",
  "subscribe",
  "view",
]);

/** What is asked of a field, the same in every frame that has it. */
const CHECKS = {
  id: (value) => (isNumber(value) ? undefined : "must be a whole number from 0 to 2^53 - 1"),
  n: (value) => (isNumber(value) ? undefined : "must be a whole number from 0 to 2^53 - 1"),
  app: text,
  class: text,
  key: text,
  method: text,
  args: (value) => (Array.isArray(value) ? undefined : "must be an array"),
  query: (value) =>
    isQuery(value)
      ? undefined
      : 'must be {"where":TEXT,"params":[...] or {...},"order":TEXT,"limit":N,"after":TEXT,"count":BOOLEAN}, all of them optional',
  command: (value) => (isCommand(value) ? undefined : COMMAND_FORM),
  ask: (value) => (isDelayAsk(value) ? undefined : ASK_FORM),
  callId: (value) => (typeof value === "string" && isCallId(value) ? undefined : `must be ${CALL_ID_GRAMMAR}`),
  timeoutMs: (value) =>
    isNumber(value) && value >= 1 && value <= SETTINGS.CALL_TIMEOUT_MS.max
      ? undefined
      : `must be a whole number of milliseconds, 1 to ${SETTINGS.CALL_TIMEOUT_MS.max}`,
  consistency: (value) => (value === "replica" ? undefined : 'must be "replica", or be left out'),
  token: (value) =>
    typeof value === "string" && value.length <= TOKEN_CHARACTERS_MAX
      ? undefined
      : `must be text of at most ${TOKEN_CHARACTERS_MAX} characters`,
  names: (value) =>
    Array.isArray(value) && value.length <= NAMES_MAX && value.every(isEventName)
      ? undefined
      : `must be an array of at most ${NAMES_MAX} event names`,
  from: (value) =>
    isFrom(value)
      ? undefined
      : 'must be {"kind":"now"}, {"kind":"after","number":N} or {"kind":"snapshot","reading":{"method":M,"args":[...]}}',
  snapshotAfterGap: (value) => (isReading(value) ? undefined : 'must be {"method":M,"args":[...]}'),
} satisfies Readonly<Record<string, Check>>;

type Field = keyof typeof CHECKS;

const SHAPES: ReadonlyMap<string, Shape> = new Map<ClientFrame["type"], Shape>([
  ["hello", shapeOf([], ["token"])],
  ["call", shapeOf(["id", "method", ...TARGET], ["app", "args", "callId", "timeoutMs", "consistency"])],
  ["find", shapeOf(["id", "class"], ["app", "query", "timeoutMs"])],
  ["send", shapeOf(["id", "method", ...TARGET], ["app", "args", "command", "timeoutMs"])],
  ["timers", shapeOf(["id", ...TARGET], ["app", "timeoutMs"])],
  ["delay", shapeOf(["id", "ask"], ["timeoutMs"])],
  ["cancel", shapeOf(["id"], [])],
  ["subscribe", shapeOf(["id", ...TARGET], ["app", "from", "names", "snapshotAfterGap"])],
  ["view", shapeOf(["id", "method", ...TARGET], ["app", "args"])],
  ["unsubscribe", shapeOf(["id"], [])],
  ["ping", shapeOf([], ["n"])],
]);

function shapeOf(required: readonly Field[], optional: readonly Field[]): Shape {
  return { required, checks: new Map([...required, ...optional].map((field) => [field, CHECKS[field]])) };
}

function checkFields(frame: PlainObject): void {
  const { type } = frame;
  const shape = typeof type === "string" ? SHAPES.get(type) : undefined;
  if (shape === undefined) throw unknownType(type);
  for (const field of shape.required) {
    if (!Object.hasOwn(frame, field)) throw malformed(`a ${type} frame has a field "${field}"`);
  }
  for (const field in frame) {
    if (field === "type") continue;
    const check = shape.checks.get(field);
    if (check === undefined) throw unknownField(field, shape, `${type}`);
    const fault = check(frame[field] as PlainValue);
    if (fault !== undefined) throw malformed(`the field "${field}" of a ${type} frame ${fault}`);
  }
}

/** The fields are checked; only readings may lack their arguments. */
function frameOf(frame: PlainObject): ClientFrame {
  const checked = frame as unknown as ClientFrame;
  if (checked.type !== "subscribe") return checked;
  const { from, snapshotAfterGap } = checked;
  if (from?.kind === "snapshot") frame.from = { kind: "snapshot", reading: withArguments(from.reading) };
  if (snapshotAfterGap !== undefined) frame.snapshotAfterGap = withArguments(snapshotAfterGap);
  return checked;
}

function withArguments({ method, args }: Partial<ReadingCall> & { readonly method: string }): PlainObject {
  return { method, args: [...(args ?? [])] };
}

function isAnswered({ type }: PlainObject): boolean {
  return typeof type === "string" && ANSWERED.has(type);
}

function isFrom(value: PlainValue): boolean {
  if (!isTable(value)) return false;
  switch (value.kind as SubscribeFrom["kind"]) {
    case "now":
      return hasOnly(value, ["kind"]);
    case "after":
      return hasOnly(value, ["kind", "number"]) && isNumber(value.number);
    case "snapshot":
      return hasOnly(value, ["kind", "reading"]) && isReading(value.reading);
    default:
      return false;
  }
}

function isReading(value: PlainValue | undefined): boolean {
  if (!isTable(value) || !hasOnly(value, ["method", "args"]) || typeof value.method !== "string") return false;
  return value.args === undefined || Array.isArray(value.args);
}

const QUERY_FIELDS: Readonly<Record<string, (value: PlainValue) => boolean>> = {
  where: (value) => typeof value === "string",
  params: (value) => Array.isArray(value) || isTable(value),
  order: (value) => typeof value === "string",
  limit: (value) => typeof value === "number",
  after: (value) => typeof value === "string",
  count: (value) => typeof value === "boolean",
};

function isQuery(value: PlainValue): boolean {
  if (!isTable(value)) return false;
  return Object.entries(value).every(([field, one]) => {
    return Object.hasOwn(QUERY_FIELDS, field) && QUERY_FIELDS[field]?.(one) === true;
  });
}

function isEventName(value: PlainValue): boolean {
  return typeof value === "string" && value.length > 0 && value.length <= NAME_CHARACTERS_MAX;
}

function hasOnly(table: PlainObject, fields: readonly string[]): boolean {
  return Object.keys(table).every((field) => fields.includes(field));
}

function text(value: PlainValue): string | undefined {
  return typeof value === "string" ? undefined : "must be text";
}

function isNumber(value: PlainValue | undefined): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isTable(value: PlainValue | undefined): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

function unknownType(type: PlainValue | undefined): MoonportError {
  if (typeof type !== "string") return malformed('a frame has a "type"');
  const guess = nearest(type, [...SHAPES.keys()]);
  return malformed(`there are no frames of type "${clip(type)}"`, guess);
}

function unknownField(field: string, { checks }: Shape, type: string): MoonportError {
  return malformed(`a ${type} frame has no field "${clip(field)}"`, nearest(field, [...checks.keys()]));
}

function malformed(message: string, guess?: string): MoonportError {
  return MoonportError.of("bad_request", message, guess === undefined ? {} : { hint: `did you mean ${guess}?` });
}

function clip(text: string): string {
  return text.length > 40 ? `${text.slice(0, 37)}...` : text;
}
