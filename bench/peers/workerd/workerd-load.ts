/**
 * Calls of Durable Objects by the light client: a WebSocket to each object, or one to the worker in front of them. JSON in text
 * frames laid out in advance.
 */
import { type Line, LineLoad, socketLine } from "../../load/line-load.js";
import { placeOf } from "../../load/load.js";
import { clientFrame, RawSocket } from "../../load/raw-socket.js";
import { writeNumber } from "../digits.js";
import type { PeerLoadSpec } from "../peer-load.js";

const ID_CHARACTERS = 5;
const AMOUNT_CHARACTERS = 10;
const OPENING_AT_ONCE = 50;
const START = '{"id":';
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;

export async function openWorkerdLoad(spec: PeerLoadSpec): Promise<LineLoad> {
  if (spec.way === "workerd worker") return new LineLoad([await workerLine(spec)], spec.inFlight);
  const frame = frameMaker(spec.method);
  const lines: Line[] = [];
  for (let first = 0; first < spec.keys.length; first += OPENING_AT_ONCE) {
    const keys = spec.keys.slice(first, first + OPENING_AT_ONCE);
    const sockets = await Promise.all(
      keys.map((key) => RawSocket.open(`${spec.url.replace("http", "ws")}/v1/default/Work/${key}/socket`, "json")),
    );
    lines.push(...sockets.map((socket) => socketLine(socket, frame, answerId)));
  }
  return new LineLoad([lines.length === 1 ? (lines[0] as Line) : together(lines)], spec.inFlight);
}

async function workerLine({ url, method, keys }: PeerLoadSpec): Promise<Line> {
  const socket = await RawSocket.open(`${url.replace("http", "ws")}/v1/socket`, "json");
  const frames = keys.map((key) => frameMaker(method, key));
  const frameOf = (id: number, index: number): Buffer => {
    const frame = frames[placeOf(index, frames.length)] as (typeof frames)[number];
    return frame(id, index);
  };
  return socketLine(socket, frameOf, answerId);
}

/** One line over many: a call goes to that of its object. */
function together(lines: readonly Line[]): Line {
  const called = new Set<Line>();
  return {
    listen: (events) => {
      for (const line of lines) line.listen(events);
    },
    call: (id, index) => {
      const line = lines[placeOf(index, lines.length)] as Line;
      line.call(id, index);
      called.add(line);
    },
    flush: () => {
      for (const line of called) line.flush();
      called.clear();
    },
    close: () => {
      for (const line of lines) line.close();
    },
  };
}

/** JSON allows spaces before a number: one of any length fits into the frame that was laid out. */
function frameMaker(method: "write" | "look", key?: string): (id: number, index: number) => Buffer {
  const room = (characters: number): string => "0".padStart(characters);
  const start = `${START}${room(ID_CHARACTERS)}`;
  const object = key === undefined ? "" : `,"key":"${key}"`;
  const call = `${object},"method":"${method}","args":[`;
  const text = `${start}${call}${method === "write" ? `"ada",${room(AMOUNT_CHARACTERS)}` : ""}]}`;
  const template = clientFrame(text);
  const idEnd = template.length - text.length + start.length;
  const amountEnd = template.length - "]}".length;
  return (id, index) => {
    const frame = Buffer.from(template);
    writeNumber(frame, id, idEnd);
    if (method === "write") writeNumber(frame, index, amountEnd);
    return frame;
  };
}

function answerId(payload: Buffer): number {
  let id = 0;
  let at = START.length;
  for (let byte = payload[at]; byte !== undefined && byte >= DIGIT_0 && byte <= DIGIT_9; byte = payload[++at])
    id = id * 10 + byte - DIGIT_0;
  if (id === 0) throw new Error(`no answer: ${payload.toString("utf8")}`);
  return id;
}
