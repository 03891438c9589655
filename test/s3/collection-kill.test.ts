/**
 * A node process is killed at a chosen request of a compaction on a real S3 server: before it arrives, in the middle of it, after
 * it took effect, or so that it arrives when the next node has the object. `moonport verify` then finds everything well, the
 * next node has all that was acknowledged, and its first compaction leaves nothing over.
 *
 * By default the steps that differ most, in half a minute; MOONPORT_KILL_STEPS=all takes all of them.
 */
import { beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { S3Bucket } from "../../src/bucket/s3/s3-bucket.js";
import { parseS3Url } from "../../src/bucket/s3/s3-location.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import {
  type ArmedFault,
  type Fault,
  type FaultProxy,
  type ProxiedRequest,
  startFaultProxy,
} from "../support/fault-proxy.js";
import { describeOnRealS3, type RealS3 } from "../support/real-s3.js";
import { s3Request } from "../support/s3-request.js";
import { type NoteApp, NoteNode, noteApp, verifiedByCommand, verifiedHere } from "./collection-support.js";

const TAKES_ALL = process.env.MOONPORT_KILL_STEPS === "all";

type When = "before" | "within" | "after" | "late";

/** Of which request of the compaction, as the proxy sees it. */
type Step =
  | "past"
  | "snapshot"
  | "segment"
  | "create_upload"
  | "part"
  | "complete_upload"
  | "manifest"
  | "delete"
  | "list"
  | "delete_many";

interface Kind {
  readonly what: string;
  readonly settings: Readonly<Record<string, number>>;
  /** Makes the object what it must be before the fault is armed; absent: it is the one that the round before was about. */
  readonly prepare?: (node: NoteNode, key: string) => Promise<void>;
  /** Calls until one compacts. */
  readonly call: (node: NoteNode, key: string) => Promise<unknown>;
  /** Steps with when to kill in each; those with a star are taken by default, too. */
  readonly steps: readonly (readonly [Step, readonly `${When}${"" | "*"}`[]])[];
}

const MIB = 1024 * 1024;
/** Snapshots as soon as the segments weigh a tenth of the database. */
const ANEW = {
  COMPACT_SEGMENTS_MAX: 4,
  COMPACT_BYTES_MIN: 0,
  COMPACT_SHARE_PERCENT: 10,
  SEGMENT_INLINE_BYTES_MAX: 512,
  PITR_RETENTION_MS: 0,
};
const KEEPING = { ...ANEW, PITR_RETENTION_MS: 86_400_000 };
const CALL_BYTES = 900_000;
const PREFIX = "kill";
const WELL = { damaged: { count: 0 }, unread: { count: 0 } };

const add = (node: NoteNode, key: string): Promise<unknown> => node.call(key, "add", "a line of text");
const compacted = async (node: NoteNode, key: string): Promise<void> => {
  for (let times = 0; times < 2; times++) await node.untilCompacted(key);
};

const kinds: readonly Kind[] = [
  {
    what: "a snapshot written whole",
    settings: ANEW,
    prepare: compacted,
    call: add,
    steps: [
      ["snapshot", ["before", "within*", "after", "late"]],
      ["manifest", ["before", "after", "late*"]],
      ["delete", ["before*", "after"]],
    ],
  },
  {
    what: "the first compaction of an object taken over",
    settings: ANEW,
    call: add,
    steps: [
      ["list", ["before", "after"]],
      ["delete", ["before*", "after"]],
    ],
  },
  {
    what: "a streamed snapshot",
    settings: { ...ANEW, SNAPSHOT_INLINE_BYTES_MAX: 65_536, BUCKET_PART_BYTES: 5 * MIB },
    prepare: async (node, key) => {
      for (let bytes = 0; bytes < 4 * MIB; bytes += CALL_BYTES) await node.call(key, "grow", CALL_BYTES);
    },
    call: (node, key) => node.call(key, "grow", CALL_BYTES),
    steps: [
      ["create_upload", ["before", "after"]],
      ["part", ["before", "within", "after"]],
      ["complete_upload", ["before*", "after", "late"]],
      ["manifest", ["before", "after", "late"]],
      ["delete", ["before", "after"]],
    ],
  },
  {
    what: "a merged segment",
    settings: { COMPACT_SEGMENTS_MAX: 4, SEGMENT_INLINE_BYTES_MAX: 2_048, PITR_RETENTION_MS: 0 },
    prepare: async (node, key) => {
      await node.call(key, "grow", 200_000);
      await compacted(node, key);
    },
    call: add,
    steps: [
      ["segment", ["before", "within", "after", "late"]],
      ["manifest", ["before", "after*", "late"]],
      ["delete", ["before", "after"]],
    ],
  },
  {
    what: "a compaction that keeps what it replaces",
    settings: KEEPING,
    prepare: compacted,
    call: add,
    steps: [
      ["past", ["before*", "within", "after", "late*"]],
      ["manifest", ["before", "after*"]],
    ],
  },
  {
    what: "the first compaction of an object taken over, which keeps what it replaces",
    settings: KEEPING,
    call: add,
    steps: [
      ["past", ["before", "after"]],
      ["list", ["before", "after*"]],
    ],
  },
  {
    what: "a tombstone",
    settings: ANEW,
    prepare: compacted,
    call: (node, key) => node.call(key, "bye"),
    steps: [
      ["manifest", ["before", "after*", "late"]],
      ["delete", ["before", "after"]],
    ],
  },
];

interface Kill {
  readonly kind: Kind;
  readonly step: Step;
  readonly when: When;
}

const kills = kinds.flatMap((kind) =>
  kind.steps.flatMap(([step, whens]) =>
    whens
      .filter((when) => TAKES_ALL || when.endsWith("*"))
      .map((when): Kill => ({ kind, step, when: when.replace("*", "") as When })),
  ),
);

describeOnRealS3("a node that is killed in the middle of a compaction", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  it(
    "loses nothing that was acknowledged, leaves everything whole, and what it left over goes with the next one",
    async () => {
      const drill = await Drill.begin(s3());
      for (const kill of kills) {
        await drill.round(kill).catch((cause: unknown) => {
          throw new Error(`killed in ${kill.kind.what}: ${kill.step}, ${kill.when}`, { cause });
        });
      }
      await drill.last();
    },
    30_000 * (1 + kills.length),
  );
});

/** An object in whose compaction a node was killed, and what is known of it. */
interface Victim {
  readonly kill: Kill;
  readonly key: string;
  /** Lines that were acknowledged. */
  acknowledged: number;
  isEndAcknowledged: boolean;
  readonly late?: { readonly armed: ArmedFault; readonly release: () => void };
}

/** One node after the other on one bucket, each with an empty disk. */
class Drill {
  readonly #s3: RealS3;
  readonly #app: NoteApp;
  readonly #proxy: FaultProxy;
  readonly #url: string;
  #objects = 0;
  #victim: Victim | undefined;

  private constructor(s3: RealS3, proxy: FaultProxy) {
    this.#s3 = s3;
    this.#app = noteApp(s3.env);
    this.#proxy = proxy;
    this.#url = s3.bucketUrl(PREFIX, { endpoint: proxy.endpoint });
  }

  static async begin(s3: RealS3): Promise<Drill> {
    const proxy = await startFaultProxy({ target: s3 });
    onTestFinished(() => proxy.stop());
    return new Drill(s3, proxy);
  }

  /** A node's life: it makes good what the last one left, and is killed. */
  async round(kill: Kill): Promise<void> {
    const node = await NoteNode.start(this.#app, this.#url, kill.kind.settings);
    const before = this.#victim;
    if (before !== undefined) await this.#checkKept(node, before);
    if (before !== undefined && kill.kind.prepare !== undefined) await this.#checkCollected(node, before);
    const key = kill.kind.prepare === undefined && before !== undefined ? before.key : `note-${++this.#objects}`;
    await kill.kind.prepare?.(node, key);
    await this.#killAtStep(node, kill, key);
  }

  async last(): Promise<void> {
    const node = await NoteNode.start(this.#app, this.#url, {});
    if (this.#victim === undefined) throw new Error("nobody was killed");
    await this.#checkKept(node, this.#victim);
    await this.#checkCollected(node, this.#victim);
    await node.stop();
    expect(await verifiedByCommand(this.#app, this.#url)).toMatchObject({
      objects: this.#objects,
      restorable: this.#objects,
      damaged: { count: 0 },
      unread: { count: 0 },
      past: WELL,
      strays: { count: 0 },
      garbage: { bodies: 0 },
      underWay: 0,
    });
  }

  async #killAtStep(node: NoteNode, kill: Kill, key: string): Promise<void> {
    const acknowledged = Number(await node.call(key, "count"));
    const { armed, late } = this.#arm(kill, key);
    const victim: Victim = { kill, key, acknowledged, isEndAcknowledged: false, ...(late && { late }) };
    this.#victim = victim;
    let isStruck = false;
    const struck = (kill.when === "after" ? armed.over : armed.struck).then(() => {
      isStruck = true;
    });
    while (!isStruck) {
      const call = kill.kind.call(node, key).then(
        () => {
          if (isEnd(kill)) victim.isEndAcknowledged = true;
          else victim.acknowledged++;
        },
        () => {},
      );
      await Promise.race([call, struck]);
    }
    await node.kill();
    if (kill.when === "after") expect(await armed.over).toBeLessThan(300);
    expect(await verifiedByCommand(this.#app, this.#url)).toMatchObject({
      objects: this.#objects,
      damaged: { count: 0 },
      unread: { count: 0 },
      past: WELL,
      strays: { count: 0 },
    });
    await this.#sweepUploads(kill);
  }

  async #checkKept(node: NoteNode, { kill, key, acknowledged, isEndAcknowledged }: Victim): Promise<void> {
    const count = Number(await node.call(key, "count"));
    if (isEndAcknowledged) expect(count).toBe(0);
    else expect([acknowledged, isEnd(kill) ? 0 : acknowledged + 1]).toContain(count);
  }

  /** After one compaction nothing is left over. What a dead node sent, and what comes only now, is found by it. */
  async #checkCollected(node: NoteNode, { kill, key, late }: Victim): Promise<void> {
    late?.release();
    // The object has an owner by now: a manifest is refused, a body stands where nothing names it.
    if (late !== undefined) expect(await late.armed.over).toBe(kill.step === "manifest" ? 412 : 200);
    await node.untilCompacted(key);
    const isWell = async (): Promise<void> => {
      expect(await verifiedHere(this.#url)).toMatchObject({
        objects: this.#objects,
        restorable: this.#objects,
        damaged: { count: 0 },
        unread: { count: 0 },
        past: WELL,
        garbage: { bodies: 0 },
        underWay: 0,
      });
    };
    await vi.waitFor(isWell, { timeout: 60_000, interval: 50 });
  }

  #arm({ kind, step, when }: Kill, key: string): { readonly armed: ArmedFault; readonly late?: Victim["late"] } {
    const first = this.#proxy.requests.length;
    let release = (): void => {};
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    const faults: Record<When, Fault> = {
      before: { kind: "black_hole" },
      within: { kind: "reset_in_request_body", afterBytes: 1_000 },
      after: { kind: "black_hole", forwards: true },
      late: { kind: "lands_late", until },
    };
    const isOfObject = (request: ProxiedRequest): boolean =>
      request.key.includes(`/${key}/`) || (request.key === "" && request.kind !== "list_uploads");
    const isBody = (request: ProxiedRequest): boolean => isOfObject(request) && /\.(seg|snap)$/.test(request.key);
    const armed = this.#proxy.next((request) => {
      if (!isOfObject(request) || !isStep(request, step)) return false;
      // A compaction's own manifest follows its body; a tombstone has none.
      return step !== "manifest" || isEnd({ kind }) || this.#proxy.requests.slice(first).some(isBody);
    }, faults[when]);
    return when === "late" ? { armed, late: { armed, release } } : { armed };
  }

  /** What a dead node left of an upload in parts goes with the next sweep that finds it stale. */
  async #sweepUploads({ step, when }: Kill): Promise<void> {
    const isLeft =
      step === "part" ||
      (step === "create_upload" && when === "after") ||
      (step === "complete_upload" && when !== "after");
    expect(await this.#openUploads()).toBe(isLeft ? 1 : 0);
    // In the late case it is yet to be completed.
    if (!isLeft || when === "late") return;
    const real = realWorld("/nonexistent", silentLogger);
    const inTwoDays = { ...real, clock: { ...real.clock, wallMs: () => real.clock.wallMs() + 2 * 86_400_000 } };
    const bucket = new S3Bucket(inTwoDays, resolveSettings(), parseS3Url(this.#s3.bucketUrl(PREFIX)));
    await bucket.start();
    await vi.waitFor(async () => expect(await this.#openUploads()).toBe(0), { timeout: 30_000, interval: 50 });
    await bucket.stop();
  }

  async #openUploads(): Promise<number> {
    const { endpoint, keys, bucket } = this.#s3;
    const { body } = await s3Request(endpoint, {
      method: "GET",
      path: `/${bucket}?prefix=${PREFIX}%2F&uploads=`,
      keys,
    });
    return body.toString().split("<UploadId>").length - 1;
  }
}

function isEnd({ kind }: Pick<Kill, "kind">): boolean {
  return kind.what === "a tombstone";
}

function isStep({ kind, key }: ProxiedRequest, step: Step): boolean {
  switch (step) {
    case "past":
      return kind === "put" && key.includes("/past/");
    case "snapshot":
      return kind === "put" && key.endsWith(".snap");
    case "segment":
      return kind === "put" && key.endsWith(".seg");
    case "manifest":
      return kind === "put" && key.endsWith("/manifest");
    case "delete":
      return kind === "delete" || kind === "delete_many";
    default:
      return kind === step;
  }
}
