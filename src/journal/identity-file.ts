/**
 * Who a journal is: a UUIDv7 in a file of its own, made when the folder is new. Replica sets name journals by it, so a node
 * that lost its disk, or its journal's folder, cannot answer for its old one.
 *
 * The first file stands, synced, before the identity does, and never goes without a successor. So an identity without files
 * is not a new journal but one that lost what it acknowledged, and files without an identity are not either, but for the
 * one empty file of a creation that a crash broke off. Both are refused.
 */
import { crc32 } from "node:zlib";
import { MoonportError } from "../errors.js";
import { uuidv7, type World } from "../world/world.js";
import { IDENTITY_DRAFT_NAME, IDENTITY_NAME, journalFileName, journalFileNumbers } from "./file-names.js";
import { type BeginRecord, FrameFormat, frameBytesOf, PREFIX } from "./records.js";

const FIRST_FILE = 1;
const CONTENT = /^([0-9a-f-]{36}) ([0-9a-f]{8})\n$/;

/** @throws MoonportError `journal_corrupt`, `storage_*` */
export async function openIdentity(world: World, folder: string): Promise<string> {
  const names = world.folder.list(folder);
  if (names.includes(IDENTITY_NAME)) return readIdentity(world, folder, names);
  if (!isUnbegun(world, folder, names)) {
    throw MoonportError.of("journal_corrupt", `${folder}/${IDENTITY_NAME} is missing beside files that hold records`, {
      hint: "bring the file back, or move the folder away: the node then makes a new journal",
    });
  }
  return createIdentity(world, folder);
}

/** The first bytes of a file, with the record that begins it. */
export function fileBeginning(record: BeginRecord): Buffer {
  const frameBytes = frameBytesOf(record);
  const bytes = Buffer.alloc(PREFIX.length + frameBytes);
  bytes.set(PREFIX);
  const format = new FrameFormat(record.identity, record.number);
  format.put(bytes, PREFIX.length, PREFIX.length, record, frameBytes, true);
  return bytes;
}

function readIdentity(world: World, folder: string, names: readonly string[]): string {
  const path = `${folder}/${IDENTITY_NAME}`;
  const text = Buffer.from(world.folder.readFile(path) ?? []).toString("latin1");
  const [, identity, checksum] = CONTENT.exec(text) ?? [];
  if (identity === undefined || checksum !== checksumOf(identity)) {
    throw MoonportError.of("journal_corrupt", `${path} is damaged: its checksum does not fit its content`);
  }
  if (journalFileNumbers(names).length === 0) {
    throw MoonportError.of("journal_corrupt", `${folder} has an identity and no files: what it acknowledged is lost`, {
      hint: "move the folder away: the node then makes a new journal",
    });
  }
  return identity;
}

function isUnbegun(world: World, folder: string, names: readonly string[]): boolean {
  const numbers = journalFileNumbers(names);
  if (numbers.length === 0) return true;
  const sizeBytes = world.folder.stat(`${folder}/${journalFileName(FIRST_FILE)}`)?.sizeBytes;
  return numbers.length === 1 && sizeBytes !== undefined && sizeBytes <= firstBytes("0".repeat(36)).length;
}

async function createIdentity(world: World, folder: string): Promise<string> {
  const identity = uuidv7(world);
  world.folder.ensureDirectory(folder);
  await world.folder.flushDirectory(parentOf(folder));
  await writeSynced(world, `${folder}/${journalFileName(FIRST_FILE)}`, firstBytes(identity));
  const draft = `${folder}/${IDENTITY_DRAFT_NAME}`;
  await writeSynced(world, draft, Buffer.from(`${identity} ${checksumOf(identity)}\n`, "latin1"));
  await world.folder.flushDirectory(folder);
  world.folder.rename(draft, `${folder}/${IDENTITY_NAME}`);
  await world.folder.flushDirectory(folder);
  return identity;
}

function firstBytes(identity: string): Buffer {
  return fileBeginning({ kind: "begin", identity, number: FIRST_FILE, previousBytes: 0, oldest: FIRST_FILE });
}

async function writeSynced(world: World, path: string, bytes: Uint8Array): Promise<void> {
  const file = world.folder.open(path, "write");
  try {
    file.write(bytes, 0);
    await file.flush();
  } finally {
    file.close();
  }
}

function checksumOf(identity: string): string {
  return crc32(identity).toString(16).padStart(8, "0");
}

function parentOf(folder: string): string {
  const slash = folder.lastIndexOf("/");
  return slash < 0 ? "." : folder.slice(0, slash);
}
