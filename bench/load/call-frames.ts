/** Call frames for {@link RawSocket}: one for each object, laid out once; its id, argument and call id are written over. */
import { pack, unpack } from "msgpackr";
import { callIdSource } from "../support/call-ids.js";
import { type LoadSpec, placeOf } from "./load.js";
import { clientFrame } from "./raw-socket.js";

interface Template {
  readonly bytes: Buffer;
  readonly idAt: number;
  readonly argumentAt: number;
  readonly callIdAt: number;
}

const UINT16 = 0xcd;
const UINT32 = 0xce;
const UINT8 = 0xcc;
const MAP16 = 0xde;
const STRING8 = 0xd9;
const CALL_ID_BYTES = 36;
const nextCallId = callIdSource();

export class CallFrames {
  readonly #templates: readonly Template[];

  constructor({ operation, ids }: LoadSpec) {
    if (operation.kind === "unit") throw new Error("units have no frames");
    this.#templates = operation.keys.map((key) => template(key, operation.kind, ids));
  }

  /** Appended to what is about to be sent. @param id up to 65,535 */
  next(id: number, index: number): Buffer {
    const { bytes, idAt, argumentAt, callIdAt } = this.#templates[placeOf(index, this.#templates.length)] as Template;
    const frame = Buffer.from(bytes);
    frame.writeUInt16BE(id, idAt);
    if (argumentAt > 0) frame.writeUInt32BE(index, argumentAt);
    if (callIdAt > 0) frame.write(nextCallId(), callIdAt, "latin1");
    return frame;
  }
}

function template(key: string, method: string, ids: boolean): Template {
  const parts: Uint8Array[] = [Uint8Array.of(0x80 | (ids ? 7 : 6))];
  const length = (): number => parts.reduce((sum, part) => sum + part.length, 0);
  const add = (...values: unknown[]): void => {
    for (const value of values) parts.push(pack(value));
  };
  add("type", "call", "id");
  const idAt = length() + 1;
  parts.push(Uint8Array.of(UINT16, 0, 0));
  add("class", "Work", "key", key, "method", method, "args");
  let argumentAt = 0;
  if (method === "write") {
    parts.push(Uint8Array.of(0x92));
    add("ada");
    argumentAt = length() + 1;
    parts.push(Uint8Array.of(UINT32, 0, 0, 0, 0));
  } else {
    parts.push(Uint8Array.of(0x90));
  }
  let callIdAt = 0;
  if (ids) {
    add("callId");
    callIdAt = length() + 2;
    parts.push(Uint8Array.of(STRING8, CALL_ID_BYTES), new Uint8Array(CALL_ID_BYTES));
  }
  const bytes = clientFrame(Buffer.concat(parts));
  const head = bytes.length - length();
  const from = (at: number): number => (at === 0 ? 0 : at + head);
  return { bytes, idAt: from(idAt), argumentAt: from(argumentAt), callIdAt: from(callIdAt) };
}

/** The number that a reply carries: a node and the echo write `type` and `id` first. @throws Error for what is no reply */
export function replyId(payload: Buffer): number {
  const at = payload[0] === MAP16 ? 3 : 1;
  if (payload[at + 6] !== 0x72) throw new Error(`no reply: ${JSON.stringify(unpack(payload))}`);
  const number = payload[at + 14] as number;
  if (number < 0x80) return number;
  if (number === UINT8) return payload[at + 15] as number;
  if (number === UINT16) return payload.readUInt16BE(at + 15);
  throw new Error(`an unexpected number in ${JSON.stringify(unpack(payload))}`);
}
