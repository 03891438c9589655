/**
 * Server-Sent Events as Moonport speaks them: the text of each message and how it is read again. One file for both ends.
 *
 * An object's event is a message of its own name, with its number as `id` and its data as JSON. What Moonport says itself has
 * names that begin with `moonport.`; an event whose own name could not stand there travels inside `moonport.event`. The field
 * `at` (when the event was emitted) is ours, and ignored by browsers as any unknown field is.
 */
import { assert } from "../errors.js";
import type { PlainValue } from "../values.js";
import type { Problem } from "./problem.js";
import { wireJson } from "./wire-json.js";

export const EVENT_STREAM_TYPE = "text/event-stream";

/** What Moonport says itself. */
export const STREAM_NAMES = {
  subscribed: "moonport.subscribed",
  snapshot: "moonport.snapshot",
  gap: "moonport.gap",
  ended: "moonport.ended",
  /** An event whose name is no field of a line, or is one of these. */
  event: "moonport.event",
} as const;

const RESERVED = /^moonport\.|[\r\n\0]|^$/;

export interface StreamMessage {
  /** "" when the message names none; browsers then say `message`. */
  readonly name: string;
  readonly data: string;
  /** The last id so far, this message's own included. */
  readonly id: string;
  readonly atMs: number | undefined;
}

export function eventText(event: {
  readonly number: number;
  readonly name: string;
  readonly data: PlainValue;
  readonly atMs: number;
}): string {
  const { number, name, data, atMs } = event;
  const isReserved = RESERVED.test(name);
  const json = wireJson(isReserved ? { name, data } : data);
  return `id: ${number}\nat: ${atMs}\nevent: ${isReserved ? STREAM_NAMES.event : name}\ndata: ${json}\n\n`;
}

/** @param id what a client that comes back after this message resumes from; absent: what it was before */
export function saidText(name: "subscribed" | "snapshot" | "gap", data: PlainValue, id?: number): string {
  return messageText(STREAM_NAMES[name], wireJson(data), id);
}

/** Data of the message that ends a stream. */
export interface StreamEnd {
  /** An `EndReason` of src/realtime/contract.ts. */
  readonly reason: string;
  readonly after: number | null;
  readonly error?: Problem;
}

export function endedText(end: StreamEnd, id?: number): string {
  return messageText(STREAM_NAMES.ended, JSON.stringify(end), id);
}

function messageText(name: string, json: string, id: number | undefined): string {
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${json}\n\n`;
}

/** Keeps the connection alive and says how far it has come; browsers take the id and show nothing. */
export function keepAliveText(id: number | undefined): string {
  return id === undefined ? ":\n\n" : `:\nid: ${id}\n\n`;
}

/** Far above what a node sends in one message. */
const LINE_CHARACTERS_MAX = 256 * 1024 * 1024;

/** Takes a stream's text in pieces of any size, and gives its messages. */
export class StreamReader {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #id = "";
  #atMs: number | undefined;
  /** Of the last whole block. */
  #reachedId = "";

  /** The last id, also of blocks that carry nothing else; of a block that was cut off it does not count. */
  get id(): string {
    return this.#reachedId;
  }

  push(text: string): StreamMessage[] {
    const messages: StreamMessage[] = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    assert(this.#rest.length <= LINE_CHARACTERS_MAX, "a line of an event stream that does not end");
    for (const line of lines) {
      const message = this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (message !== undefined) messages.push(message);
    }
    return messages;
  }

  #line(line: string): StreamMessage | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
    else if (field === "at") this.#atMs = Number(value);
    return undefined;
  }

  #dispatch(): StreamMessage | undefined {
    const message = { name: this.#name, data: this.#data.join("\n"), id: this.#id, atMs: this.#atMs };
    const isEmpty = this.#data.length === 0;
    this.#reachedId = this.#id;
    this.#name = "";
    this.#data = [];
    this.#atMs = undefined;
    return isEmpty ? undefined : message;
  }
}
