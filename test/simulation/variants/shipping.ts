/** The bucket's record, what stands beside it, and what stands with a write in its transaction. */
import type { Bucket } from "../../../src/bucket/bucket.js";
import { bodyKeysOf } from "../../../src/shipping/sweep.js";
import type { PlainValue } from "../../../src/values.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

export const SHIPPING: Record<string, Variant> = {
  "the manifest is written without a condition": {
    breaks: "Whoever writes an object's record last has it (S3).",
    replaces: [
      replacing("bucket/ambiguous-write", ({ tryWrite, writeResolved }) => ({
        tryWrite: (bucket, write, inDoubt) => tryWrite(unconditional(bucket), write, inDoubt),
        writeResolved: (bucket, world, write, options) => writeResolved(unconditional(bucket), world, write, options),
      })),
    ],
    seed: 1,
    caughtBy: "history",
  },
  "the manifest is written before the body that it names": {
    breaks: "A record names a body that may never come (S3).",
    replaces: [
      replacing("bucket/ambiguous-write", ({ tryWrite }) => ({
        tryWrite: async (bucket, write, inDoubt) => {
          if (bucket.atomic) return tryWrite(bucket, write, inDoubt);
          const result = await tryWrite(bucket, { ...write, beside: [] }, inDoubt);
          if (result.kind === "landed") for (const body of write.beside ?? []) await bucket.write([body]);
          return result;
        },
      })),
    ],
    plan: { atomicBucket: false, settings: { SEGMENT_INLINE_BYTES_MAX: 0 } },
    seed: 1,
    caughtBy: "error",
  },
  "what no record names is collected at once": {
    breaks:
      "After a compaction every body goes that the record does not name, also one that the next record is to name.",
    replaces: [
      replacing("shipping/collection", ({ Collector }) => ({
        Collector: class extends Collector {
          readonly #parts: ConstructorParameters<typeof Collector>;

          constructor(...parts: ConstructorParameters<typeof Collector>) {
            super(...parts);
            this.#parts = parts;
          }

          override async collect(...[, landed]: Parameters<InstanceType<typeof Collector>["collect"]>): Promise<void> {
            const [, bucket, { keys }] = this.#parts;
            const named = new Set([keys.manifest, ...bodyKeysOf(keys, landed)]);
            const page = await bucket.list(keys.prefix).catch(() => ({ keys: [] }));
            const unnamed = page.keys.filter((key) => !named.has(key));
            if (unnamed.length > 0) await bucket.delete(unnamed).catch(() => {});
          }
        },
      })),
    ],
    plan: { objects: 2, atomicBucket: false, settings: { SEGMENT_INLINE_BYTES_MAX: 0, COMPACT_SEGMENTS_MAX: 4 } },
    seed: 3,
    caughtBy: "error",
  },
  "a call's id is recorded in another transaction": {
    breaks: "What a call id replied is written with the transaction after that of its effect (O2).",
    replaces: [replacing("store/call-ids", recordingLater)],
    plan: {
      objects: 2,
      readShare: 0,
      ...only({ crash_between_steps: 4, crash: 2, reset: 2, power_cut: 1 }),
      strikeMs: 500,
    },
    seed: 1,
    caughtBy: "history",
  },
};

function unconditional(bucket: Bucket): Bucket {
  return {
    name: bucket.name,
    atomic: bucket.atomic,
    start: () => bucket.start(),
    stop: () => bucket.stop(),
    get: (key) => bucket.get(key),
    writeStream: (key, parts) => bucket.writeStream(key, parts),
    readStream: (key) => bucket.readStream(key),
    list: (prefix, options) => bucket.list(prefix, options),
    delete: (keys) => bucket.delete(keys),
    write: (writes) =>
      bucket.write(
        writes.map((write) => (write.key.startsWith("objects/") ? { key: write.key, bytes: write.bytes } : write)),
      ),
  };
}

function recordingLater({ CallIds }: typeof import("../../../src/store/call-ids.js")) {
  type Record = Parameters<InstanceType<typeof CallIds>["add"]>[0];
  class Later extends CallIds {
    #added: Record[] = [];
    #due: Record[] = [];
    readonly #replies = new Map<string, { readonly reply: PlainValue; readonly seq: number }>();

    override lookup(...[id, ...call]: Parameters<InstanceType<typeof CallIds>["lookup"]>) {
      const known = this.#replies.get(id);
      return known === undefined ? super.lookup(id, ...call) : ({ kind: "hit", ...known } as const);
    }

    override prepare(call: Parameters<InstanceType<typeof CallIds>["prepare"]>[0]) {
      const record = super.prepare(call);
      if (record !== undefined) this.#replies.set(call.id, { reply: call.reply, seq: call.seq });
      return record;
    }

    override add(record: Record): void {
      this.#added.push(record);
    }

    override write(nowMs: number): void {
      for (const record of this.#due) super.add(record);
      this.#due = this.#added;
      this.#added = [];
      super.write(nowMs);
    }
  }
  return { CallIds: Later };
}
