/** What the S3 stub says, as S3 words it. */
import type { OutgoingHttpHeaders } from "node:http";
import { s3ErrorDocument } from "./s3-error-document.js";
import type { StoredObject } from "./s3-stub-store.js";

export interface StubReply {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: Buffer | string;
}

export function errorReply(status: number, code: string, message?: string): StubReply {
  return { status, headers: XML, body: s3ErrorDocument(code, message) };
}

export function xmlReply(root: string, content: string): StubReply {
  const namespace = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"';
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<${root} ${namespace}>${content}</${root}>`;
  return { status: 200, headers: XML, body };
}

const XML = { "content-type": "application/xml" };

export function element(name: string, value: string | number | boolean): string {
  return `<${name}>${escapeXml(String(value))}</${name}>`;
}

/** The texts of all elements of that name. */
export function elementsIn(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map(([, text]) => unescapeXml(text ?? ""));
}

/** The object, or the part of it that a `Range` header asks for. */
export function objectReply(object: StoredObject, range: string | undefined): StubReply {
  const headers = {
    etag: `"${object.etag}"`,
    "last-modified": new Date(object.modifiedMs).toUTCString(),
    "accept-ranges": "bytes",
    "content-type": "application/octet-stream",
  };
  const size = object.bytes.length;
  const part = range === undefined ? undefined : partOf(range, size);
  if (part === undefined) return { status: 200, headers, body: object.bytes };
  const [first, last] = part;
  if (first > last) return errorReply(416, "InvalidRange", "The requested range is not satisfiable");
  const body = object.bytes.subarray(first, last + 1);
  return { status: 206, headers: { ...headers, "content-range": `bytes ${first}-${last}/${size}` }, body };
}

/** First and last byte; first above last where there is none such. `undefined`: not a range that S3 heeds. */
function partOf(range: string, size: number): [number, number] | undefined {
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  if (first === "" && last === "") return undefined;
  if (first === "") return Number(last) === 0 ? [1, 0] : [Math.max(0, size - Number(last)), size - 1];
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  return Number(first) < size ? [Number(first), end] : [1, 0];
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character as keyof typeof ENTITIES]);
}

function unescapeXml(text: string): string {
  const named = Object.entries(ENTITIES).reduce(
    (plain, [character, entity]) => (character === "&" ? plain : plain.replaceAll(entity, character)),
    text.replace(/&#(x?)([0-9a-f]+);/gi, (_, hex, digits) =>
      String.fromCodePoint(Number.parseInt(digits, hex ? 16 : 10)),
    ),
  );
  return named.replaceAll("&amp;", "&");
}
