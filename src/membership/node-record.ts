/**
 * A node's record in the bucket: its session, and what has become of it.
 *
 * It changes only by compare-and-swap and carries a fresh random id per write, so that a write without an answer can be
 * recognised later. A bucket can only delete a key whatever stands at it, and a delete whose answer was lost may land at any
 * time; so before a key is deleted its record is `removed`, by compare-and-swap, and after that no session is ever written
 * there: a node that comes back stands at another key (M5).
 */
import { MoonportError } from "../errors.js";
import type { ServedApp } from "../release/contract.js";
import { uuidv7, type World } from "../world/world.js";
import type { NodeRecord } from "./contract.js";

/** What the keys of all nodes begin with. */
export const NODES_PREFIX = "nodes/";

export type Phase =
  /** The session lives as long as it renews this. */
  | { readonly kind: "open" }
  /** Another process is to have the node's name: the session cannot be renewed and ends by time, or says that it has ended. */
  | { readonly kind: "closing"; readonly by: string }
  /** The session answers nothing any more. */
  | { readonly kind: "ended" }
  /** It ended long ago, and its key goes. */
  | { readonly kind: "removed" };

export interface StoredRecord {
  readonly record: NodeRecord;
  readonly phase: Phase;
  /** Fresh per write. */
  readonly rid: string;
}

const NODE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const FORMAT = 1;
const PLACE_BYTES = 6;

/** @throws MoonportError `bad_name` */
export function checkNodeName(node: string): void {
  if (NODE_NAME.test(node)) return;
  throw MoonportError.of("bad_name", `"${node.slice(0, 80)}" is no name of a node`, {
    hint: "a node's name is a letter or digit followed by up to 62 letters, digits, dots, dashes or underscores",
  });
}

/** What the keys of one node begin with. It mostly has one, and keeps it across restarts. */
export function nodePrefix(node: string): string {
  return `${NODES_PREFIX}${node}/`;
}

/** A key at which nothing ever stood. */
export function freshNodeKey(node: string, world: Pick<World, "random">): string {
  return nodePrefix(node) + Buffer.from(world.random.bytes(PLACE_BYTES)).toString("hex");
}

export function stored(record: NodeRecord, phase: Phase, world: Pick<World, "clock" | "random">): StoredRecord {
  return { record, phase, rid: uuidv7(world) };
}

export function encodeRecord({ record, phase, rid }: StoredRecord): Uint8Array {
  return Buffer.from(JSON.stringify({ format: FORMAT, rid, phase, ...record }), "utf8");
}

/** Fields that a later release adds are passed over. @throws MoonportError `bucket_unusable` naming the key */
export function decodeRecord(key: string, bytes: Uint8Array): StoredRecord {
  const refuse = (what: string): never => {
    throw MoonportError.of("bucket_unusable", `${key} is no node's record: ${what}`, {
      hint: "delete the key when no node of that name is running",
    });
  };
  const document = parsed(bytes) ?? refuse("it is no JSON object");
  if (document.format !== FORMAT) refuse(`format ${String(document.format)} is not known to this version`);
  const text = (name: string): string => {
    const value = document[name];
    return typeof value === "string" ? value : refuse(`${name} is no text`);
  };
  const number = (name: string): number => {
    const value = document[name];
    return typeof value === "number" && value >= 0 ? value : refuse(`${name} is no number`);
  };
  const record: NodeRecord = {
    node: text("node"),
    session: text("session"),
    address: text("address"),
    ...(document.clientAddress !== undefined && { clientAddress: text("clientAddress") }),
    zone: text("zone"),
    weight: number("weight"),
    version: text("version"),
    journal: text("journal"),
    ...(document.journalBroken === true && { journalBroken: true }),
    ttlMs: number("ttlMs"),
    ...(document.mark !== undefined && { mark: text("mark") }),
    ...(Array.isArray(document.releases) && { releases: document.releases.flatMap(servedIn) }),
  };
  return { record, phase: phaseOf(document.phase) ?? refuse("its phase is not known"), rid: text("rid") };
}

function parsed(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const document: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    return typeof document === "object" && document !== null ? (document as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** What a later version says in another way is passed over: nothing rests on it. */
function servedIn(value: unknown): ServedApp[] {
  const { app, source, release, failed } = (value ?? {}) as Record<string, unknown>;
  if (typeof app !== "string" || (source !== "release" && source !== "folder" && source !== "none")) return [];
  const { release: next, message } = (failed ?? {}) as Record<string, unknown>;
  return [
    {
      app,
      source,
      ...(typeof release === "number" && { release }),
      ...(typeof next === "number" && typeof message === "string" && { failed: { release: next, message } }),
    },
  ];
}

function phaseOf(value: unknown): Phase | undefined {
  const { kind, by } = (value ?? {}) as { kind?: unknown; by?: unknown };
  if (kind === "open" || kind === "ended" || kind === "removed") return { kind };
  return kind === "closing" && typeof by === "string" ? { kind, by } : undefined;
}
