/**
 * One app of this node and the release that it serves: looks for a newer one when it is told of it, and from time to time, and
 * switches to it between calls.
 *
 * It promises that a node serves all files of one release, never some of one and some of another, and that it goes on with
 * what it has when it cannot serve the next: then it says so, until there is one that it can.
 */
import type { AppSource } from "../app-source.js";
import { asMoonportError, type MoonportError } from "../errors.js";
import type { Timer, World } from "../world/world.js";
import { type Bundle, sourceOf } from "./bundle.js";
import type { Release, ServedApp } from "./contract.js";
import { currentOf, type Declared } from "./record.js";
import type { ReleaseStore } from "./store.js";

/** The files of a release, compiled on this node. */
export interface CompiledApp {
  /** What does not load; empty when all of it can serve. */
  readonly faults: readonly { readonly file: string; readonly error: MoonportError }[];
  readonly declared: Declared;
  /** From now on they serve, instead of what served before. */
  serve(release: Release): void;
}

export interface FollowerParts {
  readonly app: string;
  readonly world: Pick<World, "timers" | "log">;
  readonly store: ReleaseStore;
  readonly pollMs: number;
  /** What it serves as it begins. */
  readonly served: Served;
  compile(source: AppSource): CompiledApp;
  /** The files stay; the release that they belong to is another. */
  renumber(release: Release): void;
  /** What {@link ReleaseFollower.standing} says has changed. */
  changed(): void;
}

export type Served =
  | { readonly kind: "none" }
  | { readonly kind: "folder" }
  | { readonly kind: "release"; readonly release: Release };

interface Failure {
  readonly release: number;
  readonly message: string;
  /** The same files will fail again. */
  readonly isFinal: boolean;
}

const MESSAGE_MAX = 300;

export class ReleaseFollower {
  readonly app: string;
  readonly #parts: FollowerParts;
  #served: Served;
  #failed: Failure | undefined;
  /** Compiled ahead, for a release that is about to be current. */
  #prepared: { readonly bundle: string; readonly compiled: CompiledApp } | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #timer: Timer | undefined;
  #isBlind = false;
  #isStopped = false;

  constructor(parts: FollowerParts) {
    this.app = parts.app;
    this.#parts = parts;
    this.#served = parts.served;
  }

  get standing(): ServedApp {
    const failed = this.#failed && { release: this.#failed.release, message: this.#failed.message };
    return {
      app: this.app,
      source: this.#served.kind,
      ...(this.#served.kind === "release" && { release: this.#served.release.number }),
      ...(failed !== undefined && { failed }),
    };
  }

  /** 0 where it serves none. */
  get number(): number {
    return this.#served.kind === "release" ? this.#served.release.number : 0;
  }

  start(): void {
    this.#plan();
  }

  /** Resolves when it asks the bucket for nothing any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await Promise.allSettled([this.#running, this.#next]);
  }

  /**
   * Looks for the current release, in a reading of the bucket that begins now or later, and serves it. Resolves also when it
   * cannot: {@link standing} tells.
   * @throws MoonportError `bucket_failed`, `release_damaged` when the record cannot be read
   */
  look(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    if (this.#running === undefined) return this.#begin();
    this.#next = this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  /** Looks if a release of that number is newer than what it serves. @throws MoonportError as {@link look} */
  async atLeast(number: number): Promise<void> {
    if (number > this.number && number !== this.#failed?.release) await this.look();
  }

  /** Compiles what is about to be current, so that switching to it takes no time. @returns what does not load */
  prepare(bundle: Bundle): CompiledApp["faults"] {
    const compiled = this.#parts.compile(sourceOf(this.app, bundle.files));
    if (compiled.faults.length === 0) this.#prepared = { bundle: bundle.id, compiled };
    return compiled.faults;
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    const running = this.#look().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #look(): Promise<void> {
    if (this.#isStopped) return;
    const standing = await this.#parts.store.read(this.app);
    if (standing === undefined || this.#isStopped) return;
    const release = currentOf(standing.record);
    if (release.number === this.number) return this.#failedWith(undefined);
    if (this.#failed?.release === release.number && this.#failed.isFinal) return;
    if (this.#served.kind === "release" && this.#served.release.bundle === release.bundle) {
      this.#parts.renumber(release);
      return this.#serves(release);
    }
    await this.#take(release);
  }

  async #take(release: Release): Promise<void> {
    const compiled = await this.#compiled(release).catch((error: unknown) => {
      // It may be readable the next time.
      this.#failedWith({ release: release.number, message: messageOf(error), isFinal: false });
      return undefined;
    });
    if (compiled === undefined || this.#isStopped) return;
    const [fault] = compiled.faults;
    if (fault !== undefined) {
      return this.#failedWith({ release: release.number, message: faultsText(compiled.faults), isFinal: true });
    }
    this.#prepared = undefined;
    compiled.serve(release);
    this.#serves(release);
  }

  async #compiled(release: Release): Promise<CompiledApp> {
    if (this.#prepared?.bundle === release.bundle) return this.#prepared.compiled;
    const bundle = await this.#parts.store.bundle(this.app, release);
    return this.#parts.compile(sourceOf(this.app, bundle.files));
  }

  #serves(release: Release): void {
    this.#served = { kind: "release", release };
    this.#failed = undefined;
    const { number, bundle, by, message } = release;
    this.#parts.world.log.info(
      { app: this.app, release: number, bundle: bundle.slice(0, 12), by, message },
      `serves release ${number} of ${this.app}`,
    );
    this.#parts.changed();
  }

  #failedWith(failed: Failure | undefined): void {
    if (failed?.release === this.#failed?.release && failed?.message === this.#failed?.message) return;
    this.#failed = failed;
    if (failed !== undefined) {
      const { release, message } = failed;
      const keeps = this.#served.kind === "release" ? `release ${this.number}` : "what it has";
      this.#parts.world.log.error(
        { app: this.app, release, error: message },
        `cannot serve release ${release} of ${this.app}, and keeps ${keeps}`,
      );
    }
    this.#parts.changed();
  }

  #plan(): void {
    this.#timer = this.#parts.world.timers.after(this.#parts.pollMs, () => {
      void this.look()
        .then(
          () => this.#sees(),
          (error: unknown) => this.#sees(asMoonportError(error)),
        )
        .then(() => {
          if (!this.#isStopped) this.#plan();
        });
    });
  }

  /** The log hears of the first failure and of the end of it. */
  #sees(error?: MoonportError): void {
    const { log } = this.#parts.world;
    if (this.#isStopped || (error !== undefined) === this.#isBlind) return;
    this.#isBlind = error !== undefined;
    if (error !== undefined) log.warn({ app: this.app, error: error.message }, "cannot look for a newer release");
    else log.info({ app: this.app }, "can look for newer releases again");
  }
}

export function faultsText(faults: CompiledApp["faults"]): string {
  const [first] = faults;
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more files)` : "";
  return `${first === undefined ? "" : messageOf(first.error)}${more}`;
}

function messageOf(error: unknown): string {
  const { message } = asMoonportError(error);
  return message.length > MESSAGE_MAX ? `${message.slice(0, MESSAGE_MAX - 1)}…` : message;
}
