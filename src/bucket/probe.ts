/**
 * Whether a bucket keeps its word: a node asks before it trusts one with its history.
 *
 * A store that ignores conditions, or lets two creators win, works for weeks and then loses writes; so each promise that
 * the rest stands on is tried once, on keys of its own, and a bucket that breaks one is refused by name.
 */
import { isOwn, MoonportError } from "../errors.js";
import { uuidv7, type World } from "../world/world.js";
import type { Bucket, Version, WriteCondition, WriteOutcome } from "./bucket.js";
import type { ProbeCheck } from "./probe-check.js";

/** What its keys begin with; a start that is cut off leaves a few of them. */
export const PROBE_PREFIX = "probe/";

const RIVALS = 8;

/**
 * @throws MoonportError `bucket_unusable`, `details.check` naming the promise that was broken, or refused for a reason that
 *   only an operator can mend; `bucket_failed` when the bucket did not answer
 */
export async function probeBucket(bucket: Bucket, world: Pick<World, "clock" | "random">): Promise<void> {
  const probe = new Probe(bucket, `${PROBE_PREFIX}${uuidv7(world)}/`);
  let failed: unknown;
  try {
    await probe.run();
  } catch (error) {
    failed = error;
  }
  try {
    await probe.delete();
  } catch (error) {
    failed ??= error;
  }
  if (failed !== undefined) throw failed;
}

class Probe {
  readonly #bucket: Bucket;
  readonly #prefix: string;
  readonly #written = new Set<string>();

  constructor(bucket: Bucket, prefix: string) {
    this.#bucket = bucket;
    this.#prefix = prefix;
  }

  async run(): Promise<void> {
    const first = await this.#check("create", () => this.#create());
    await this.#check("read", () => this.#expectText("cas", "first", first));
    await this.#check("reject_create", () => this.#rejected("cas", { absent: true }, "first", first));
    const second = await this.#check("update", () => this.#update(first));
    await this.#check("reject_stale", () => this.#rejected("cas", { version: first }, "second", second));
    await this.#check("one_winner", () => this.#race());
    if (this.#bucket.atomic) await this.#check("atomic_batch", () => this.#batch());
    await this.#check("list", () => this.#list());
  }

  /** Also the cleaning up. */
  async delete(): Promise<void> {
    await this.#check("delete", async () => {
      await this.#bucket.delete([...this.#written]);
      for (const key of this.#written) {
        if (await this.#bucket.get(key)) throw broken("a deleted key is still there");
      }
    });
  }

  async #create(): Promise<Version> {
    const created = await this.#write("cas", "first", { absent: true });
    if (created.kind !== "landed") throw broken("a new key was reported to exist");
    return versionOf(created);
  }

  async #update(first: Version): Promise<Version> {
    const updated = await this.#write("cas", "second", { version: first });
    if (updated.kind !== "landed") throw broken("a write against the current version was refused");
    const second = versionOf(updated);
    if (second === first) throw broken("the version did not change with a write");
    await this.#expectText("cas", "second", second);
    return second;
  }

  async #rejected(name: string, condition: WriteCondition, text: string, version: Version): Promise<void> {
    const outcome = await this.#write(name, "intruder", condition);
    if (outcome.kind !== "lost") throw broken("a write whose condition does not hold was accepted");
    await this.#expectText(name, text, version);
  }

  /** In the rush a store may refuse a rival, or leave it in doubt: that one has not won, and what stands must be the winner's. */
  async #race(): Promise<void> {
    const rivals = Array.from({ length: RIVALS }, (_, index) => `rival ${index}`);
    const ends = await Promise.allSettled(rivals.map((rival) => this.#write("race", rival, { absent: true })));
    const winners = ends.flatMap((end, index) =>
      end.status === "fulfilled" && end.value.kind === "landed" ? [{ outcome: end.value, index }] : [],
    );
    const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    const [winner] = winners;
    const worst = failures.find((failure) => !isPassing(failure)) ?? (winner ? undefined : failures[0]);
    if (worst !== undefined) throw worst;
    if (winners.length !== 1 || !winner)
      throw broken(`${winners.length} of ${RIVALS} concurrent creates won; one must`);
    await this.#expectText("race", rivals[winner.index] ?? "", versionOf(winner.outcome));
  }

  async #batch(): Promise<void> {
    const outcome = await this.#bucket.write([
      { key: this.#key("batch"), bytes: bytesOf("half") },
      { key: this.#key("cas"), bytes: bytesOf("half"), condition: { absent: true } },
    ]);
    if (outcome.kind !== "lost") throw broken("a batch with a condition that does not hold was accepted");
    if (await this.#bucket.get(this.#key("batch"))) throw broken("half of a refused batch was written");
  }

  async #list(): Promise<void> {
    const expected = [this.#key("cas"), this.#key("race")];
    const { keys } = await this.#bucket.list(this.#prefix);
    if (keys.join("\n") !== expected.join("\n")) {
      throw broken(`a listing gave ${keys.length} keys, not the ${expected.length} that are there, in order`);
    }
  }

  async #write(name: string, text: string, condition: WriteCondition): Promise<WriteOutcome> {
    return this.#bucket.write([{ key: this.#key(name), bytes: bytesOf(text), condition }]);
  }

  async #expectText(name: string, text: string, version: Version): Promise<void> {
    const found = await this.#bucket.get(this.#key(name));
    if (!found) throw broken("a key that was written is not there");
    if (new TextDecoder().decode(found.bytes) !== text) throw broken("a read gave other bytes than those that stand");
    if (found.version !== version) throw broken("a read gave another version than the write");
  }

  #key(name: string): string {
    const key = this.#prefix + name;
    this.#written.add(key);
    return key;
  }

  async #check<T>(check: ProbeCheck, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (error instanceof MoonportError && isOwn(error, "bucket_failed")) throw this.#refused(check, error);
      throw MoonportError.of("bucket_unusable", `${this.#bucket.name} failed the probe at ${check}: ${message}`, {
        hint:
          error instanceof BrokenPromise
            ? (this.#bucket.hintFor?.(check) ?? "this store cannot keep a history safely; use another")
            : "the bucket did not answer as it should; see the cause",
        details: { check },
        cause: error,
      });
    }
  }

  /** A bucket that does not answer is not a bucket that lies: a later start may find it well, unless it takes an operator. */
  #refused(check: ProbeCheck, error: MoonportError): MoonportError {
    const bag = {
      ...(error.hint !== undefined && { hint: error.hint }),
      details: { ...error.details, check },
      cause: error,
    };
    const { name } = this.#bucket;
    // Which of its own keys the probe was at helps nobody, and the bucket is named already.
    const reason = error.message.split(`${name}: `).at(-1);
    if (error.details?.needsOperator === true) {
      return MoonportError.of("bucket_unusable", `${name} refused the probe at ${check}: ${reason}`, bag);
    }
    return MoonportError.of("bucket_failed", `${name} did not answer the probe at ${check}: ${reason}`, bag);
  }
}

/** What a store in good order may answer under load. */
function isPassing(failure: unknown): boolean {
  return failure instanceof MoonportError && isOwn(failure, "bucket_failed") && failure.details?.needsOperator !== true;
}

class BrokenPromise extends Error {}

function broken(message: string): BrokenPromise {
  return new BrokenPromise(message);
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function versionOf(outcome: WriteOutcome): Version {
  const version = outcome.kind === "landed" ? outcome.versions[0] : undefined;
  if (version === undefined) throw broken("a write that landed has no version");
  return version;
}
