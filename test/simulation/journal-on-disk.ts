/** What a node's disk is sure to hold of its journal at this moment: as if the power went, and took all that it may take. */
import { haveSeq } from "../../src/cluster/journal-rules.js";
import { journalFileName, journalFileNumbers } from "../../src/journal/file-names.js";
import { scanFile } from "../../src/journal/file-scan.js";
import { JoinedObject } from "../../src/journal/join.js";
import { FrameFormat, recordOf } from "../../src/journal/records.js";
import type { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { FileHandle } from "../../src/world/folder.js";

export interface TailOnDisk {
  readonly tailEpoch: number;
  readonly have: number;
}

const FOLDER = "journal";

export function journalIdOnDisk(world: VirtualWorld): string | undefined {
  const bytes = world.atWorst(`${FOLDER}/identity`);
  return bytes && Buffer.from(bytes).toString("latin1").split(" ")[0];
}

/** Undefined where the journal holds nothing of the object. */
export function tailOnDisk(world: VirtualWorld, journal: string, object: string): TailOnDisk | undefined {
  const joined = new JoinedObject<undefined>();
  let oldest = 1;
  let syncedBytes: number | undefined;
  const numbers = journalFileNumbers(world.folder.list(FOLDER));
  for (const number of numbers.reverse()) {
    if (number < oldest) break;
    const path = `${FOLDER}/${journalFileName(number)}`;
    const steps = scanFile({
      path,
      file: handleOf(world.atWorst(path) ?? new Uint8Array(0)),
      format: new FrameFormat(journal, number),
      syncedBytes,
      visit: (frame) => {
        const record = recordOf(frame);
        if (record.kind === "begin") syncedBytes = record.previousBytes;
        if (record.kind === "begin" || record.kind === "oldest") oldest = Math.max(oldest, record.oldest);
        else if (record.object !== object) return;
        else if (record.kind === "head") joined.addHead(record);
        else joined.addEntry(record.epoch, record.base, { ...record, payload: undefined });
      },
    });
    while (steps.next().done !== true);
  }
  const held = joined.held();
  return held && { tailEpoch: held.tailEpoch, have: haveSeq(held) };
}

function handleOf(bytes: Uint8Array): FileHandle {
  const refuse = (): never => {
    throw new Error("what is on a disk is only looked at");
  };
  return {
    read: (target, offset, length, position) => {
      const part = bytes.subarray(position, position + length);
      target.set(part, offset);
      return part.length;
    },
    sizeBytes: () => bytes.length,
    write: refuse,
    truncate: refuse,
    sync: refuse,
    flush: refuse,
    close: () => {},
  };
}
