/** What a cut may hold. */
import { randomFillSync } from "node:crypto";
import { expect, it } from "vitest";
import { EntryRun } from "../../src/cluster/entry-run.js";
import { toWire } from "../../src/fleet/wired-promise.js";
import { encodeFrame, FRAME } from "../../src/links/frames.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { changedBytesInMessage } from "../../src/shipping/object-cargo.js";
import { encodeSegment } from "../../src/shipping/wal/segment.js";
import { PAGE_BYTES } from "../../src/store/object-database.js";

it("a segment that journals take fits into a message, with what a claimer is told around it", () => {
  const settings = resolveSettings({ LINK_MESSAGE_BYTES_MAX: 1024 * 1024, OBJECT_FLIGHT_BYTES_MAX: 1024 * 1024 });
  const count = changedBytesInMessage(settings) / PAGE_BYTES;
  const image = randomFillSync(new Uint8Array(PAGE_BYTES));
  // Far apart, so that their numbers are long.
  const pages = new Map(Array.from({ length: count }, (_, index) => [(index + 1) * 2 ** 21, image]));
  const seq = 2 ** 50;
  const head = {
    epoch: seq,
    fromSeq: seq + 1,
    toSeq: seq + 1,
    pageSize: PAGE_BYTES,
    finalPages: count * 2 ** 21,
    identityBefore: "0123456789abcdef",
    identityAfter: "fedcba9876543210",
    cutMs: seq,
  };
  const payload = encodeSegment(head, pages);
  const entries = EntryRun.from([{ afterSeq: seq, toSeq: seq + 1, payload }]);
  const tail = { tailEpoch: seq, base: seq, have: seq + 1, entries };
  const answer = toWire({ kind: "promised", journal: "j".repeat(64), epoch: seq, tail });
  const object = `${"a".repeat(64)}/${"C".repeat(64)}/${"k".repeat(256)}`;
  const message = encodeFrame([FRAME.answer, 2 ** 32, [[object, answer]]]);
  expect(message.length).toBeLessThanOrEqual(settings.LINK_MESSAGE_BYTES_MAX);
  expect(message.length).toBeGreaterThan(0.95 * settings.LINK_MESSAGE_BYTES_MAX);
});
