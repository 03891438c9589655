/**
 * What a link carries once both sides are known, and its form: MessagePack arrays that begin with their kind. A channel
 * message is one or more of them behind each other, so that everything that is said in one turn travels at once.
 */
import { Packr, Unpackr } from "msgpackr";
import { MoonportError } from "../errors.js";
import { errorOf, problemOf } from "../wire/problem.js";

/** Numbers of the wire: a release may add some under a newer protocol, and never gives one another meaning. */
export const FRAME = {
  request: 0,
  answer: 1,
  /** Of a request or a stream. */
  failure: 2,
  heartbeat: 3,
  openStream: 4,
  item: 5,
  endStream: 6,
  credit: 7,
  leaveStream: 8,
  /** Of a request: whoever waits for its answer has gone. From protocol 2 on. */
  cancel: 9,
} as const;

/** From the side that dialled. Ids grow along a link, and requests and streams share them. */
export type AskingFrame =
  | readonly [kind: typeof FRAME.request, id: number, name: string, body: unknown]
  | readonly [kind: typeof FRAME.openStream, id: number, name: string, body: unknown, window: number]
  | readonly [kind: typeof FRAME.credit, id: number, items: number]
  | readonly [kind: typeof FRAME.leaveStream, id: number]
  | readonly [kind: typeof FRAME.cancel, id: number];

/** From the side that was dialled. */
export type AnsweringFrame =
  | readonly [kind: typeof FRAME.answer, id: number, value: unknown]
  | readonly [kind: typeof FRAME.failure, id: number, problem: unknown]
  | readonly [kind: typeof FRAME.item, id: number, value: unknown]
  | readonly [kind: typeof FRAME.endStream, id: number];

export type Frame = AskingFrame | AnsweringFrame | readonly [kind: typeof FRAME.heartbeat];

const FORM = { useRecords: false, variableMapSize: true, int64AsType: "number", useToJSON: false } as const;
const packr = new Packr(FORM);
/** Bytes are copied out: a small one must not keep the whole message that it came in. */
const unpackr = new Unpackr({ ...FORM, copyBuffers: true });

/** @throws MoonportError `bad_value` for what msgpack cannot carry */
export function encodeFrame(frame: Frame): Uint8Array {
  try {
    return packr.pack(frame);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw MoonportError.of("bad_value", `what is sent to another node cannot travel: ${why}`, { cause });
  }
}

/**
 * Both ends are this package, of one release or of two neighbours that agreed on a protocol: a frame has its kind's shape.
 * @throws MoonportError `bad_request` when the bytes hold no frames
 */
export function decodeFrames(message: Uint8Array): readonly Frame[] {
  let values: unknown;
  try {
    values = unpackr.unpackMultiple(message);
  } catch (cause) {
    throw MoonportError.of("bad_request", "a message is not MessagePack", { cause });
  }
  if (Array.isArray(values) && values.every(isFrame)) return values;
  throw MoonportError.of("bad_request", "a message holds what is no frame");
}

function isFrame(value: unknown): value is Frame {
  return Array.isArray(value) && typeof value[0] === "number" && (value.length === 1 || typeof value[1] === "number");
}

export function failureFrame(id: number, error: MoonportError): AnsweringFrame {
  return [FRAME.failure, id, problemOf(error)];
}

export function errorOfFailure(problem: unknown): MoonportError {
  return errorOf(problem) ?? MoonportError.of("internal", "another node failed and did not say how");
}
