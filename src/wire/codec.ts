/**
 * Frames as WebSocket messages and back, in the two forms there are: JSON text and MessagePack, chosen by subprotocol.
 *
 * Both sides use it, in Node and in browsers. What is decoded are plain values; what they must look like is checked by
 * src/wire/client-frames.ts in the door, and taken on trust by the client.
 */
import { Packr } from "msgpackr";
import { assert, MoonportError } from "../errors.js";
import type { LiveEvent } from "../realtime/contract.js";
import type { PlainValue } from "../values.js";
import { type ClientFrame, JSON_PROTOCOL, MSGPACK_PROTOCOL, type ServerFrame } from "./frames.js";
import { type Decoded, readMsgpack } from "./msgpack-reader.js";
import { readWireJson, toWire } from "./wire-json.js";

export type Message = string | Uint8Array;

export interface FrameCodec {
  readonly protocol: typeof JSON_PROTOCOL | typeof MSGPACK_PROTOCOL;
  /** Whether its messages are binary ones. */
  readonly isBinary: boolean;
  encode(frame: ClientFrame | ServerFrame): Message;
  /**
   * @param message of this codec's kind
   * @param depthMax arrays and maps inside each other, the frame included
   * @throws MoonportError `bad_json`, `bad_request` when it cannot be read at all
   */
  decode(message: Message, depthMax: number): Decoded;
  /** What of an event's frame is the same for all its subscribers, and has to be made once. */
  eventBody(event: LiveEvent): Uint8Array;
  /** What stands before the body in the frames of one subscription. */
  eventHead(id: number): Uint8Array;
}

const WHAT = "the frame";
const UTF8 = new TextEncoder();
const FATAL = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

class JsonCodec implements FrameCodec {
  readonly protocol = JSON_PROTOCOL;
  readonly isBinary = false;

  encode(frame: ClientFrame | ServerFrame): string {
    return JSON.stringify(toWire(frame as unknown as PlainValue));
  }

  decode(message: Message, depthMax: number): Decoded {
    const text = typeof message === "string" ? message : textOf(message);
    return readWireJson(text, WHAT, depthMax);
  }

  eventBody({ number, name, data, atMs }: LiveEvent): Uint8Array {
    const text = JSON.stringify({ type: "event", number, name, data: toWire(data), atMs });
    return UTF8.encode(`,${text.slice(1)}`);
  }

  eventHead(id: number): Uint8Array {
    return UTF8.encode(`{"id":${id}`);
  }
}

/** Plain maps only: no records, no extension types, nothing a strict reader would refuse. */
const packr = new Packr({
  useRecords: false,
  variableMapSize: true,
  int64AsType: "number",
  useToJSON: false,
  encodeUndefinedAsNil: true,
});
/** A map of six fields, the first of which is called `id`; its number follows, then the others. */
const EVENT_MAP = 0x86;
const EVENT_OTHERS = 0x85;

class MsgpackCodec implements FrameCodec {
  readonly protocol = MSGPACK_PROTOCOL;
  readonly isBinary = true;

  encode(frame: ClientFrame | ServerFrame): Uint8Array {
    return packr.pack(frame);
  }

  decode(message: Message, depthMax: number): Decoded {
    return readMsgpack(typeof message === "string" ? UTF8.encode(message) : message, WHAT, depthMax);
  }

  eventBody({ number, name, data, atMs }: LiveEvent): Uint8Array {
    const packed = packr.pack({ type: "event", number, name, data, atMs });
    assert(packed[0] === EVENT_OTHERS, "an event's other fields are a map of five");
    return Uint8Array.from(packed.subarray(1));
  }

  eventHead(id: number): Uint8Array {
    const packed = packr.pack({ id });
    const head = Uint8Array.from(packed);
    head[0] = EVENT_MAP;
    return head;
  }
}

export const jsonCodec: FrameCodec = new JsonCodec();
export const msgpackCodec: FrameCodec = new MsgpackCodec();

/** The codec of a subprotocol; undefined for one that there is not. */
export function codecOf(protocol: string): FrameCodec | undefined {
  return [jsonCodec, msgpackCodec].find((codec) => codec.protocol === protocol);
}

function textOf(message: Uint8Array): string {
  try {
    return FATAL.decode(message);
  } catch (cause) {
    throw MoonportError.of("bad_json", `${WHAT} is not UTF-8 text`, { cause });
  }
}
