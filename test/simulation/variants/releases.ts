/** Deployments that take each other's place, nodes that do not follow, and old classes at work on what newer ones have changed. */
import { encodeReleaseRecord } from "../../../src/release/record.js";
import type { ReleaseStore } from "../../../src/release/store.js";
import { bundleKey, bundlesPrefix, releaseRecordKey } from "../../../src/shipping/layout.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

/** Nothing goes wrong but that many deploy. */
const QUIET = {
  nodes: 3,
  workload: "counter",
  objects: 2,
  clients: 1,
  deployers: 3,
  stormMs: 8_000,
  ...only({}),
} as const;
/** Who is cut off or away is not told. */
const APART = only({ cut: 3, partition: 3, crash: 2, stop: 1, reset: 2 });

type StoreParts = ConstructorParameters<typeof ReleaseStore>;

export const RELEASES: Record<string, Variant> = {
  "the record of releases is written without a condition": {
    breaks: "Of two deployments at a time the later one takes the other's number (R1).",
    replaces: [
      replacing("release/store", ({ ReleaseStore }) => ({
        ReleaseStore: class extends ReleaseStore {
          readonly #bucket: StoreParts[0];

          constructor(...parts: StoreParts) {
            super(...parts);
            this.#bucket = parts[0];
          }

          override async publish(...[, next, bundle]: Parameters<ReleaseStore["publish"]>): Promise<boolean> {
            const current = next.releases.at(-1) as (typeof next.releases)[number];
            await this.#bucket.write([{ key: bundleKey(next.app, current), bytes: bundle.bytes }]);
            await this.#bucket.write([{ key: releaseRecordKey(next.app), bytes: encodeReleaseRecord(next) }]);
            return true;
          }
        },
      })),
    ],
    plan: QUIET,
    seed: 1,
    caughtBy: "release",
  },
  "what is about to be published is collected": {
    breaks: "Files that no release names yet are deleted, though the write that names them is under way.",
    replaces: [
      replacing("release/store", ({ ReleaseStore }) => ({
        ReleaseStore: class extends ReleaseStore {
          readonly #bucket: StoreParts[0];

          constructor(...parts: StoreParts) {
            super(...parts);
            this.#bucket = parts[0];
          }

          override async collect({ app, releases }: Parameters<ReleaseStore["collect"]>[0]): Promise<void> {
            const named = new Set(releases.map((release) => bundleKey(app, release)));
            const { keys } = await this.#bucket.list(bundlesPrefix(app));
            await this.#bucket.delete(keys.filter((key) => !named.has(key)));
          }
        },
      })),
    ],
    plan: { ...QUIET, deployers: 6, atomicBucket: false },
    seed: 6,
    caughtBy: "release",
  },
  "a node follows only what it is told": {
    breaks: "It never looks into the bucket by itself, nor when others serve a newer release.",
    replaces: [
      replacing("release/node-releases", ({ NodeReleases }) => ({
        NodeReleases: class extends NodeReleases {
          override start(): void {}
          override lookSoon(): void {}
          override async atLeast(): Promise<void> {}
        },
      })),
    ],
    plan: { ...QUIET, ...APART, strikeMs: 500 },
    seed: 1,
    caughtBy: "release",
  },
  "the version of a class does not tell its text": {
    breaks: "An object that is in use when a release switches gets the new methods without their migrations.",
    replaces: [replacing("lua/lua-file", () => ({ versionOf: () => "1" }))],
    plan: QUIET,
    seed: 1,
    caughtBy: "release",
  },
  "an older release is let at what a newer one has migrated": {
    breaks: "Nobody looks before a rollback how far objects have come, nor when one of them is opened.",
    replaces: [
      replacing("release/record", () => ({ limitsOf: () => [] })),
      replacing("object/migrate-object", servingWhateverComes),
    ],
    plan: { nodes: 3, deployers: 3, ...only({ reset: 1 }) },
    seed: 1,
    caughtBy: "release",
  },
};

function servingWhateverComes({ migrateObject }: typeof import("../../../src/object/migrate-object.js")) {
  const lenient: typeof migrateObject = ({ running, quarantine }, ...rest) =>
    migrateObject({ running, quarantine, whyBehind: () => undefined }, ...rest);
  return { migrateObject: lenient };
}
