import fs from "node:fs";
import SqliteDatabase from "better-sqlite3";
import { afterEach, expect, test } from "vitest";
import { WalCapture } from "../../../src/shipping/wal/wal-capture.js";
import { readWalHeader, WAL_HEADER_BYTES } from "../../../src/shipping/wal/wal-format.js";
import { ShippedObject } from "./shipped-object.js";

let object: ShippedObject;

function written(): Buffer {
  object = new ShippedObject();
  object.database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, body)");
  object.database.exec("INSERT INTO rows (body) VALUES (randomblob(5000))");
  return fs.readFileSync(object.walFile());
}

afterEach(() => object.close());

/** The checksum as the file format's page words it, one step at a time. */
function bigEndianChecksum(bytes: Buffer, start: [number, number]): [number, number] {
  let [s1, s2] = start;
  for (let at = 0; at < bytes.length; at += 8) {
    s1 = (s1 + bytes.readUInt32BE(at) + s2) % 2 ** 32;
    s2 = (s2 + bytes.readUInt32BE(at + 4) + s1) % 2 ** 32;
  }
  return [s1, s2];
}

/** The same WAL as a big-endian machine would have written it. */
function asBigEndian(wal: Buffer): Buffer {
  const copy = Buffer.from(wal);
  const pageSize = copy.readUInt32BE(8);
  copy.writeUInt32BE(0x377f0683, 0);
  let sums = bigEndianChecksum(copy.subarray(0, 24), [0, 0]);
  copy.writeUInt32BE(sums[0], 24);
  copy.writeUInt32BE(sums[1], 28);
  for (let at = WAL_HEADER_BYTES; at < copy.length; at += 24 + pageSize) {
    sums = bigEndianChecksum(copy.subarray(at, at + 8), sums);
    sums = bigEndianChecksum(copy.subarray(at + 24, at + 24 + pageSize), sums);
    copy.writeUInt32BE(sums[0], at + 16);
    copy.writeUInt32BE(sums[1], at + 20);
  }
  return copy;
}

test("the header of a WAL that SQLite wrote", () => {
  const wal = written();
  expect(readWalHeader(wal)).toEqual({
    bigEndian: false,
    pageSize: 1024,
    checkpointSeq: 0,
    salt1: wal.readUInt32BE(16),
    salt2: wal.readUInt32BE(20),
    checksum1: wal.readUInt32BE(24),
    checksum2: wal.readUInt32BE(28),
  });
});

test("a header reads the same from an odd place in memory", () => {
  const wal = written();
  const shifted = Buffer.concat([Buffer.alloc(3), wal]).subarray(3);
  expect(readWalHeader(shifted)).toEqual(readWalHeader(wal));
});

test("a flipped bit anywhere in the header, or a missing byte, makes it no header", () => {
  const wal = written().subarray(0, WAL_HEADER_BYTES);
  for (let bit = 0; bit < WAL_HEADER_BYTES * 8; bit++) {
    const copy = Buffer.from(wal);
    copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(readWalHeader(copy), `bit ${bit}`).toBeUndefined();
  }
  expect(readWalHeader(wal.subarray(0, 31))).toBeUndefined();
});

test("a capture that cannot give every page by which the file grew asks for a snapshot", () => {
  written();
  const wal = fs.readFileSync(object.walFile());
  // The first commit grows the file to two pages; one frame says now that there are nine.
  const last = wal.length - 1048;
  expect(wal.readUInt32BE(last + 4)).toBeGreaterThan(0);
  wal.writeUInt32BE(9 + wal.readUInt32BE(last + 4), last + 4);
  fs.writeFileSync(object.walFile(), asBigEndian(wal));
  expect(object.capture.capture()).toEqual({ kind: "snapshot_needed", reason: "page_missing" });
});

test("a frame of page 0 ends the walk, whatever its checksum", () => {
  written();
  const wal = fs.readFileSync(object.walFile());
  wal.writeUInt32BE(0, WAL_HEADER_BYTES);
  fs.writeFileSync(object.walFile(), asBigEndian(wal));
  expect(object.capture.capture().kind).toBe("nothing");
});

test("a WAL with big-endian checksums is captured like any other, also from its middle", () => {
  written();
  object.database.exec("INSERT INTO rows (body) VALUES (randomblob(2000))");
  const wal = asBigEndian(fs.readFileSync(object.walFile()));
  const native = object.capture.capture();
  if (native.kind !== "pages") throw new Error("expected pages");
  // Images stand only until the next reading.
  const expected = new Map([...native.pages].map(([pgno, image]) => [pgno, image.slice()]));
  fs.copyFileSync(object.absolute("object.db"), object.absolute("big.db"));
  const capture = new WalCapture(object.folder, "big.db", { pageSize: 1024, changedBytesMax: 1 << 20 });
  capture.startAfterSnapshot();
  const frames = (wal.length - WAL_HEADER_BYTES) / 1048;
  let commits = 0;
  const seen = new Map<number, Uint8Array>();
  for (let count = 0; count <= frames; count++) {
    fs.writeFileSync(object.absolute("big.db-wal"), wal.subarray(0, WAL_HEADER_BYTES + count * 1048));
    const captured = capture.capture();
    if (captured.kind === "nothing") continue;
    if (captured.kind === "snapshot_needed") throw new Error(captured.reason);
    commits += captured.commits;
    for (const [pgno, image] of captured.pages) seen.set(pgno, image.slice());
  }
  capture.close();
  expect(commits).toBe(3);
  expect(new Map([...seen].sort((a, b) => a[0] - b[0]))).toEqual(new Map([...expected].sort((a, b) => a[0] - b[0])));

  const sqlite = new SqliteDatabase(object.absolute("big.db"));
  expect(sqlite.prepare("SELECT count(*) FROM rows").pluck().get(), "SQLite takes the same bytes").toBe(2);
  sqlite.close();
});
