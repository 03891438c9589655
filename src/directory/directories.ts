/**
 * The directories of a node's classes: telling them rows, asking them, and bringing them over when a class declares other columns.
 *
 * Each shard's home sees to it that its shard is whole: when a class comes up with columns that the shard was not brought over to,
 * the objects of the shard are walked in the background and tell their rows again; then the shard drops what is declared no more.
 * Queries are answered all the while: a column that a row was not yet told with is null.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError, MoonportError } from "../errors.js";
import { type ObjectIdentity, SYSTEM_APP } from "../identity.js";
import type { DirectoryDeclaration } from "../lua/contract.js";
import type { NodeCounters } from "../metrics/node-counters.js";
import type { DirectoryStatus, DirectoryWalk, FoundPage } from "../node-api.js";
import { shapeOf } from "../object/directory-shape.js";
import type { InnerCall } from "../object/inner-call.js";
import type { RowListener } from "../object/object-context.js";
import type { Settings } from "../settings/settings.js";
import { classPrefix } from "../shipping/layout.js";
import type { PlainValue } from "../values.js";
import { deferred } from "../world/deferred.js";
import type { Timer, World } from "../world/world.js";
import { Finder, type FindInput } from "./finder.js";
import { Publisher } from "./publisher.js";
import type { RowDebts } from "./row-debts.js";
import {
  DIRECTORY_CLASS,
  type ShardStatus,
  shardNumberOf,
  shardObject,
  type TravellingShape,
  travelling,
} from "./shard-contract.js";
import { Walk } from "./walk.js";

export interface DirectoriesParts {
  readonly world: World;
  readonly settings: Settings;
  readonly counters: NodeCounters;
  readonly bucket: Bucket;
  /** Classes that are served, of all apps. */
  classes(): Iterable<{ readonly app: string; readonly name: string }>;
  /** @throws MoonportError `app_not_found`, `class_not_found` */
  declarationOf(app: string, className: string): DirectoryDeclaration | undefined;
  call(call: InnerCall): Promise<PlainValue>;
  /** Asks an object, wherever it lives, to tell its row again. @throws MoonportError */
  tellRow(object: ObjectIdentity): Promise<void>;
  readonly debts: RowDebts;
  /** Whether this node is to look after an object. */
  isHome(object: ObjectIdentity): boolean;
}

interface ClassName {
  readonly app: string;
  readonly className: string;
}

/** Before a further check; what changes meanwhile counts as one. */
const CHECK_AFTER_MS = 100;
/** Of a class that declares no directory. */
const NOTHING: TravellingShape = ["", {}, []];

export class Directories {
  readonly rows: RowListener;
  readonly #parts: DirectoriesParts;
  readonly #publisher: Publisher;
  readonly #finder: Finder;
  /** `app/Class`, with the shape of each that was found whole, or came up without objects. */
  readonly #whole = new Map<string, string>();
  readonly #fresh = new Map<string, string>();
  /** Those served without a directory since their shards were last looked at: what changed meanwhile no shard has heard of. */
  readonly #without = new Set<string>();
  /** How often classes or nodes changed, or rows of an earlier shape were told: a look that was under way may have been before it. */
  #changes = 0;
  readonly #walks = new Map<string, Walk>();
  /** Ends when the walk under way does. */
  #turn: Promise<void> = Promise.resolve();
  readonly #over = new AbortController();
  #check: Timer | undefined;
  #isChecking = false;
  #hasChecked = false;
  #failures = 0;

  constructor(parts: DirectoriesParts) {
    this.#parts = parts;
    const { world, settings, counters } = parts;
    const callShard = (shard: ObjectIdentity, method: string, args: readonly PlainValue[], expiresMs?: number) =>
      this.#callShard(shard, method, args, expiresMs);
    this.#publisher = new Publisher({
      world,
      settings,
      counters,
      declarationOf: (app, className) => this.#declared(app, className),
      isFresh: (app, className, shape) => this.#fresh.get(`${app}/${className}`) === shape,
      callShard,
      outdated: (app, className) => {
        this.#changes++;
        this.#whole.delete(`${app}/${className}`);
        this.#checkAfter(CHECK_AFTER_MS);
      },
      tellRow: (object) => parts.tellRow(object),
      debts: parts.debts,
    });
    this.rows = this.#publisher;
    this.#finder = new Finder({
      settings,
      declarationOf: (app, className) => this.#declarationOf(app, className),
      askShard: callShard,
    });
  }

  get gauges(): { readonly waiting: number; readonly lagMs: number } {
    return { waiting: this.#publisher.waiting, lagMs: this.#publisher.lagMs };
  }

  /** @throws MoonportError */
  find(input: FindInput): Promise<FoundPage> {
    return this.#finder.find(input);
  }

  /** The object tells its row next time, whether or not it has. */
  forget(object: ObjectIdentity): void {
    this.#publisher.forget(object);
  }

  /** Resolves when nothing of the object waits to be told. @throws MoonportError `storage_behind` while its row has no room to wait */
  whenTold(object: ObjectIdentity): Promise<void> {
    return this.#publisher.whenTold(object);
  }

  /** Resolves when nothing waits to be told. */
  whenIdle(): Promise<void> {
    return this.#publisher.whenIdle();
  }

  /** Other classes are served than before, or other nodes are there: shards may have to be brought over. */
  changed(): void {
    if (this.#over.signal.aborted) return;
    this.#changes++;
    this.#whole.clear();
    for (const { app, name } of this.#parts.classes()) {
      if (this.#shapeNow(app, name) === NOTHING[0]) this.#without.add(`${app}/${name}`);
    }
    // The first one at once: a class without objects is best found to be so before it has any.
    this.#checkAfter(this.#hasChecked ? CHECK_AFTER_MS : 0);
  }

  /** @throws MoonportError `no_directory` */
  async status(app: string, className: string): Promise<DirectoryStatus> {
    const declaration = this.#declarationOf(app, className);
    const { DIRECTORY_SHARDS } = this.#parts.settings;
    const shards = await Promise.all(
      Array.from({ length: DIRECTORY_SHARDS }, (_, number) => this.#statusOf(app, className, number, declaration)),
    );
    const sum = (of: (status: ShardStatus) => number): number => shards.reduce((all, status) => all + of(status), 0);
    const shape = shapeOf(declaration);
    const isFresh = this.#fresh.get(`${app}/${className}`) === shape;
    const walk = this.#walks.get(`${app}/${className}`);
    return {
      app,
      className,
      columns: { ...declaration.columns },
      index: declaration.index,
      rows: sum(({ rows }) => rows),
      current: sum(({ current }) => current),
      stale: sum(({ stale }) => stale),
      complete: shards.every(({ settled, rows }) => settled === shape || (isFresh && rows === 0)),
      ...this.gauges,
      ...(walk !== undefined && { walk: walk.report }),
    };
  }

  /** Begins to fill a class's directory anew. @throws MoonportError `no_directory`, `bad_option` while a walk is under way */
  async rebuild(app: string, className: string): Promise<DirectoryStatus> {
    const declaration = this.#declarationOf(app, className);
    if (this.#walks.get(`${app}/${className}`)?.report.state === "running") {
      throw MoonportError.of("bad_option", `the objects of ${className} are being walked already`);
    }
    const { DIRECTORY_SHARDS } = this.#parts.settings;
    const shards = Array.from({ length: DIRECTORY_SHARDS }, (_, number) => number);
    const walk = this.#newWalk({ app, className }, shards, "rebuild");
    void this.#inTurn(() => this.#run(walk, { app, className }, declaration, shards)).catch(() => {});
    return this.status(app, className);
  }

  /** Nothing is looked after any more; rows that come are told. */
  rest(): void {
    this.#over.abort();
    this.#check?.cancel();
  }

  stop(): void {
    this.rest();
    this.#publisher.stop();
  }

  // Bringing over

  #checkAfter(pauseMs: number): void {
    if (this.#isChecking || this.#over.signal.aborted) return;
    this.#check?.cancel();
    this.#check = this.#parts.world.timers.after(pauseMs, () => void this.#checkAll());
  }

  async #checkAll(): Promise<void> {
    this.#isChecking = true;
    this.#hasChecked = true;
    let again = false;
    let found: Promise<boolean> | undefined;
    const hasShards = () => (found ??= this.#hasObjects(SYSTEM_APP, DIRECTORY_CLASS));
    for (const { app, name } of this.#parts.classes()) {
      if (this.#over.signal.aborted) return;
      try {
        await this.#checkClass({ app, className: name }, hasShards);
      } catch (thrown) {
        again = true;
        if (this.#over.signal.aborted) return;
        const fields = { class: `${app}/${name}`, error: asMoonportError(thrown).message };
        this.#parts.world.log.warn(fields, "the directory could not be looked after, and will be again");
      }
    }
    this.#isChecking = false;
    this.#failures = again ? this.#failures + 1 : 0;
    const hasChanged = [...this.#parts.classes()].some(({ app, name }) => !this.#isWhole(app, name));
    const { DIRECTORY_BACKOFF_MAX_MS } = this.#parts.settings;
    if (again) this.#checkAfter(Math.min(DIRECTORY_BACKOFF_MAX_MS, CHECK_AFTER_MS * 2 ** Math.min(this.#failures, 20)));
    else if (hasChanged) this.#checkAfter(CHECK_AFTER_MS);
  }

  #isWhole(app: string, className: string): boolean {
    const shape = this.#shapeNow(app, className);
    return shape === undefined || this.#whole.get(`${app}/${className}`) === shape;
  }

  /** Undefined for a class that is not served: nothing is known of its directory. */
  #shapeNow(app: string, className: string): string | undefined {
    try {
      const declaration = this.#parts.declarationOf(app, className);
      return declaration === undefined ? NOTHING[0] : shapeOf(declaration);
    } catch {
      return undefined;
    }
  }

  /** @param hasShards whether the bucket holds any directory's: asked of it once for all classes */
  async #checkClass({ app, className }: ClassName, hasShards: () => Promise<boolean>): Promise<void> {
    const [name, shape] = [`${app}/${className}`, this.#shapeNow(app, className)];
    if (shape === undefined || this.#whole.get(name) === shape) return;
    const declaration = this.#declared(app, className);
    const changes = this.#changes;
    const mustEmpty = declaration === undefined ? await hasShards() : this.#without.has(name);
    if (mustEmpty) await this.#empty({ app, className });
    if (declaration === undefined) this.#fresh.delete(name);
    else if (await this.#hasObjects(app, className)) {
      await this.#inTurn(async () => {
        const unsettled = await this.#unsettled({ app, className }, declaration);
        if (unsettled.length === 0) return;
        await this.#run(
          this.#newWalk({ app, className }, unsettled, "columns"),
          { app, className },
          declaration,
          unsettled,
        );
      });
    } else this.#fresh.set(name, shape);
    if (this.#changes !== changes) return;
    this.#whole.set(name, shape);
    if (mustEmpty) this.#without.delete(name);
  }

  /**
   * The class declares no directory, or did not for a while, and its objects derived no rows: what its shards hold would be taken
   * for all there is where it declares the same one again. Then they are filled anew.
   */
  async #empty({ app, className }: ClassName): Promise<void> {
    this.#fresh.delete(`${app}/${className}`);
    const { DIRECTORY_SHARDS } = this.#parts.settings;
    for (let number = 0; number < DIRECTORY_SHARDS; number++) {
      const shard = shardObject(app, className, number, DIRECTORY_SHARDS);
      if (!this.#parts.isHome(shard)) continue;
      const { settled } = (await this.#callShard(shard, "status", [NOTHING[0]])) as unknown as ShardStatus;
      if (settled === null || settled === NOTHING[0]) continue;
      await this.#callShard(shard, "doubt", []);
      await this.#callShard(shard, "settle", [NOTHING, true]);
    }
  }

  /** This node's own shards of a class that were not brought over to what it declares. */
  async #unsettled({ app, className }: ClassName, declaration: DirectoryDeclaration): Promise<number[]> {
    const { DIRECTORY_SHARDS } = this.#parts.settings;
    const unsettled: number[] = [];
    for (let number = 0; number < DIRECTORY_SHARDS; number++) {
      if (!this.#parts.isHome(shardObject(app, className, number, DIRECTORY_SHARDS))) continue;
      const { settled } = await this.#statusOf(app, className, number, declaration);
      if (settled !== shapeOf(declaration)) unsettled.push(number);
    }
    return unsettled;
  }

  async #hasObjects(app: string, className: string): Promise<boolean> {
    const { keys } = await this.#parts.bucket.list(classPrefix(app, className), { limit: 1 });
    return keys.length > 0;
  }

  /** One walk at a time. */
  async #inTurn(work: () => Promise<void>): Promise<void> {
    const before = this.#turn;
    const { promise, resolve } = deferred();
    this.#turn = promise;
    await before;
    try {
      await work();
    } finally {
      resolve();
    }
  }

  #newWalk({ app, className }: ClassName, shards: readonly number[], why: DirectoryWalk["why"]): Walk {
    const { world, bucket, settings } = this.#parts;
    const { DIRECTORY_SHARDS } = settings;
    const walk = new Walk({
      world,
      bucket,
      settings,
      app,
      className,
      why,
      includes: (object) => shards.includes(shardNumberOf(object, DIRECTORY_SHARDS)),
      tellRow: (object) => this.#parts.tellRow(object),
      signal: this.#over.signal,
    });
    const name = `${app}/${className}`;
    // What an operator has asked for is reported, also while it waits for its turn.
    if (this.#walks.get(name)?.report.state !== "running") this.#walks.set(name, walk);
    return walk;
  }

  async #run(
    walk: Walk,
    { app, className }: ClassName,
    declaration: DirectoryDeclaration,
    shards: readonly number[],
  ): Promise<void> {
    const { DIRECTORY_SHARDS } = this.#parts.settings;
    const { why } = walk.report;
    const ask = (number: number, method: string, args: readonly PlainValue[]): Promise<PlainValue> =>
      this.#callShard(shardObject(app, className, number, DIRECTORY_SHARDS), method, args);
    try {
      if (why === "rebuild") for (const number of shards) await ask(number, "doubt", []);
      await walk.run();
      const now = this.#declared(app, className);
      // The class has other columns by now: they are not to be dropped, and a walk of their own is due.
      if (now === undefined || shapeOf(now) !== shapeOf(declaration)) return;
      const dropsDoubted = why === "rebuild" && walk.isWhole;
      for (const number of shards) await ask(number, "settle", [travelling(declaration), dropsDoubted]);
    } catch (error) {
      walk.fail(error);
      throw error;
    }
  }

  async #statusOf(
    app: string,
    className: string,
    number: number,
    declaration: DirectoryDeclaration,
  ): Promise<ShardStatus> {
    const shard = shardObject(app, className, number, this.#parts.settings.DIRECTORY_SHARDS);
    // Its methods answer what shard-contract says.
    return (await this.#callShard(shard, "status", [shapeOf(declaration)])) as unknown as ShardStatus;
  }

  #callShard(
    object: ObjectIdentity,
    method: string,
    args: readonly PlainValue[],
    expiresMs = this.#parts.world.clock.monotonicMs() + this.#parts.settings.CALL_TIMEOUT_MS,
  ): Promise<PlainValue> {
    return this.#parts.call({ object, method, args, caller: { kind: "system" }, expiresMs, chain: [] });
  }

  /** @throws MoonportError `app_not_found`, `class_not_found`, `no_directory` */
  #declarationOf(app: string, className: string): DirectoryDeclaration {
    const declaration = this.#parts.declarationOf(app, className);
    if (declaration !== undefined) return declaration;
    throw MoonportError.of("no_directory", `${className} declares no directory`, {
      hint: `${className}.directory = { columns = { ... }, row = function(self) ... end }`,
    });
  }

  /** Undefined also for a class that is not served. */
  #declared(app: string, className: string): DirectoryDeclaration | undefined {
    try {
      return this.#parts.declarationOf(app, className);
    } catch {
      return undefined;
    }
  }
}
