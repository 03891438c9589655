import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MoonportError } from "../../../src/errors.js";
import { DatabaseAssembler } from "../../../src/shipping/wal/assemble.js";
import { PageLedger } from "../../../src/shipping/wal/page-identity.js";
import { decodeSegment, encodeSegment, type SegmentHead } from "../../../src/shipping/wal/segment.js";
import { ShippedObject } from "./shipped-object.js";

let object: ShippedObject;

beforeEach(() => {
  object = new ShippedObject();
  object.database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, body)");
  object.takeSnapshot();
  for (let round = 0; round < 4; round++) {
    object.database.exec("INSERT INTO rows (body) VALUES (randomblob(1500))");
    object.ship();
  }
});

afterEach(() => object.close());

function assembler(): DatabaseAssembler {
  return new DatabaseAssembler(object.folder, "restored.db", { object: "test/Object/1", pageSize: 1024 });
}

/** With the snapshot in it. */
function begun(): DatabaseAssembler {
  const assembly = assembler();
  const { snapshot } = object;
  if (snapshot === undefined) throw new Error("no snapshot");
  assembly.addSnapshotPart(snapshot.bytes);
  assembly.endSnapshot({ epoch: 1, seq: snapshot.seq, bytes: snapshot.bytes.length });
  return assembly;
}

function segment(index: number): Uint8Array {
  const bytes = object.segments[index];
  if (bytes === undefined) throw new Error(`no segment ${index}`);
  return bytes;
}

function target(change: Partial<{ seq: number; pages: number; identity: string }> = {}) {
  return { seq: object.seq, pages: object.ledger.pages, identity: object.ledger.identity(), ...change };
}

/** A segment that would be the next one, but for `change`. */
function next(change: Partial<SegmentHead>, images: Map<number, Uint8Array>, baseOf?: (pgno: number) => Uint8Array) {
  const { pages: _, ...head } = decodeSegment(segment(0));
  return encodeSegment({ ...head, ...change }, images, baseOf);
}

function expectRefused(action: () => unknown, message: RegExp): void {
  let thrown: unknown;
  try {
    action();
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(MoonportError);
  const error = thrown as MoonportError;
  expect(error.code).toBe("object_corrupt");
  expect(error.object).toBe("test/Object/1");
  expect(error.message).toMatch(message);
  expect(fs.readdirSync(object.root).filter((name) => name.startsWith("restored"))).toEqual([]);
}

describe("an assembly", () => {
  test("gives the database and the ledger to go on from", () => {
    const ledger = object.restore("restored.db");
    expect(ledger.identity()).toBe(object.ledger.identity());
    object.verifyAsShipped(object.content());
  });

  test("shows nothing under the final name before its end", () => {
    const assembly = begun();
    expect(fs.existsSync(object.absolute("restored.db"))).toBe(false);
    assembly.abort();
    assembly.abort();
    expect(fs.readdirSync(object.root).filter((name) => name.startsWith("restored"))).toEqual([]);
  });

  test("makes the folder it needs", () => {
    object.restore("objects/a7/x.db");
    expect(fs.existsSync(object.absolute("objects/a7/x.db"))).toBe(true);
  });

  test("removes a WAL that an earlier life left under the name, which SQLite would replay", () => {
    fs.writeFileSync(object.absolute("restored.db"), "old");
    fs.copyFileSync(object.walFile(), object.absolute("restored.db-wal"));
    object.verifyAsShipped(object.content());
    expect(fs.existsSync(object.absolute("restored.db-wal"))).toBe(false);
  });

  test("of segments alone begins with an empty database", () => {
    const pages = new Map([
      [1, new Uint8Array(1024).fill(1)],
      [2, new Uint8Array(1024).fill(2)],
    ]);
    const ledger = new PageLedger(1024);
    ledger.apply(pages, 2);
    const identity = ledger.identity();
    const head = { epoch: 9, fromSeq: 41, toSeq: 44, pageSize: 1024, finalPages: 2 };
    const bytes = encodeSegment({ ...head, identityBefore: "0".repeat(16), identityAfter: identity }, pages);
    const assembly = assembler();
    assembly.startEmpty(40);
    assembly.addSegment(bytes);
    assembly.finish({ seq: 44, pages: 2, identity });
    expect(fs.statSync(object.absolute("restored.db")).size).toBe(2048);
  });

  test("ends as long as the database is, though it was longer in between", () => {
    const { database } = object;
    database.exec("INSERT INTO rows (body) VALUES (randomblob(50000))");
    object.ship();
    database.exec("DELETE FROM rows; VACUUM");
    object.verify();
    expect(object.segments.length).toBe(6);
  });

  test("leaves nothing behind when the disk refuses the last step", () => {
    const assembly = begun();
    for (const bytes of object.segments) assembly.addSegment(bytes);
    fs.mkdirSync(path.join(object.absolute("restored.db"), "in the way"), { recursive: true });
    expect(() => assembly.finish(target())).toThrow(MoonportError);
    expect(fs.existsSync(object.absolute("restored.db.restoring"))).toBe(false);
  });
});

describe("a damaged history is refused with what is wrong, and leaves nothing:", () => {
  test("a segment missing", () => {
    const assembly = begun();
    assembly.addSegment(segment(0));
    expectRefused(() => assembly.addSegment(segment(2)), /segment 5-5 stands where 4 is due/);
  });

  test("a segment twice", () => {
    const assembly = begun();
    assembly.addSegment(segment(0));
    expectRefused(() => assembly.addSegment(segment(0)), /segment 3-3 stands where 4 is due/);
  });

  test("a damaged segment", () => {
    const bytes = new Uint8Array(segment(0));
    bytes[70] = (bytes[70] ?? 0) ^ 1;
    expectRefused(
      () => begun().addSegment(bytes),
      /the segment of test\/Object\/1 due at seq 3 is damaged: its checksum/,
    );
  });

  test("an older epoch after a newer one", () => {
    const assembly = assembler();
    const bytes = object.snapshot?.bytes ?? new Uint8Array(0);
    assembly.addSnapshotPart(bytes);
    assembly.endSnapshot({ epoch: 2, seq: 2, bytes: bytes.length });
    expectRefused(() => assembly.addSegment(segment(0)), /is of epoch 1, what is before it of 2/);
  });

  test("another page size", () => {
    const bytes = next({ pageSize: 512 }, new Map());
    expectRefused(() => begun().addSegment(bytes), /has pages of 512 bytes/);
  });

  test("a segment over another content", () => {
    const bytes = next({ identityBefore: "00000000000000aa" }, new Map());
    expectRefused(() => begun().addSegment(bytes), /was made over content 00000000000000aa, before it stands/);
  });

  test("a segment whose pages do not make the content it says", () => {
    const bytes = next({ finalPages: 2 }, new Map([[1, new Uint8Array(1024)]]));
    expectRefused(() => begun().addSegment(bytes), /makes content [0-9a-f]{16} instead of/);
  });

  test("a delta over another base than the one it was made from", () => {
    const base = new Uint8Array(1024).fill(77);
    const changed = new Uint8Array(base);
    changed[3] = 1;
    const bytes = next({ finalPages: 2 }, new Map([[1, changed]]), () => base);
    expectRefused(() => begun().addSegment(bytes), /makes content/);
  });

  test("a delta of a page that is not there", () => {
    const base = new Uint8Array(1024);
    const bytes = next({ finalPages: 9 }, new Map([[9, base]]), () => base);
    expectRefused(() => begun().addSegment(bytes), /holds a change of page 9, before it are 2 pages/);
  });

  test("growth over a page that nobody gives", () => {
    const bytes = next({ finalPages: 5 }, new Map([[5, new Uint8Array(1024)]]));
    expectRefused(() => begun().addSegment(bytes), /grows the database without giving page 3/);
  });

  test.each([
    ["seq", { seq: 99 }, /ends at seq 6 instead of 99/],
    ["size", { pages: 3 }, /pages instead of 3/],
    ["identity", { identity: "00000000000000aa" }, /its content is [0-9a-f]{16} instead of 00000000000000aa/],
  ])("another %s at the end than the manifest says", (_name, change, message) => {
    const assembly = begun();
    for (const bytes of object.segments) assembly.addSegment(bytes);
    expectRefused(() => assembly.finish(target(change)), message);
  });

  test("a snapshot of another length", () => {
    const assembly = assembler();
    assembly.addSnapshotPart(new Uint8Array(2048));
    expectRefused(() => assembly.endSnapshot({ epoch: 1, seq: 2, bytes: 4096 }), /has 2048 bytes instead of 4096/);
  });

  test("a snapshot that ends inside a page", () => {
    const assembly = assembler();
    assembly.addSnapshotPart(new Uint8Array(1500));
    expectRefused(() => assembly.endSnapshot({ epoch: 1, seq: 2, bytes: 1500 }), /no whole number of pages/);
  });

  test("a snapshot with a changed byte", () => {
    const bytes = new Uint8Array(object.snapshot?.bytes ?? []);
    bytes[1500] = (bytes[1500] ?? 0) ^ 1;
    const assembly = assembler();
    assembly.addSnapshotPart(bytes);
    assembly.endSnapshot({ epoch: 1, seq: 2, bytes: bytes.length });
    expectRefused(() => assembly.addSegment(segment(0)), /was made over content/);
  });
});
