/**
 * The Lua engine alone: an empty call and the load of a small class beside stock fengari; and the benchmark's call on a real
 * file, in bursts, with neither mailbox nor shipping around it.
 */
import { createRequire } from "node:module";
import { readAppSource } from "../../src/app-source.js";
import type { LuaClass } from "../../src/lua/contract.js";
import { createLuaEngine } from "../../src/lua/engine.js";
import { luaLimits } from "../../src/lua/limits.js";
import { CallHost, type HostContext, type HostFile } from "../../src/object/call-host.js";
import { Catalog } from "../../src/object/catalog.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { ObjectTables } from "../../src/store/object-tables.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import type { World } from "../../src/world/world.js";
import { BENCH_FOLDER, removeFolder, scratchFolder, workObject } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { roundOfActions } from "../support/measure.js";
import { perCall } from "./floors.js";

/** What this file uses of stock fengari, which has no types. */
interface StockFengari {
  readonly lua: {
    lua_pushvalue(L: object, index: number): void;
    lua_pcall(L: object, args: number, results: number, handler: number): number;
    lua_settop(L: object, index: number): void;
  };
  readonly lauxlib: { luaL_newstate(): object; luaL_loadstring(L: object, text: Uint8Array): number };
  to_luastring(text: string): Uint8Array;
}

const BURST_CALLS = 64;
/** Timed together: looking at the clock costs a good part of what an empty call does. */
const BATCH_CALLS = 64;
const WAL_BYTES_MAX = 256 * 1_024;
const CLASS_TEXT = classText(1_024);

export class LuaRows implements Group {
  readonly cases: readonly Case[];
  readonly #settings = resolveSettings();
  readonly #engine = createLuaEngine({
    clock: performanceClock(),
    limits: luaLimits(this.#settings),
    engineLog: silentLogger,
  });
  readonly #parent: string;
  #folder = "";

  constructor(parent: string) {
    this.#parent = parent;
    const againstPlainBurst = [{ figure: "rate", floors: ["sqlite burst of 64"] }] as const;
    this.cases = [
      this.#stockCall(),
      { name: "engine call", against: [rateOf("fengari call")], round: (bounds) => this.#calls(bounds, "nothing") },
      {
        name: "engine call with three host calls",
        against: [rateOf("fengari call")],
        round: (bounds) => this.#calls(bounds, "consult"),
      },
      this.#stockLoad(),
      { name: "class load 1 KB", against: [rateOf("fengari compile 1 KB")], round: (bounds) => this.#loads(bounds) },
      { name: "call on its file burst of 64", against: againstPlainBurst, round: (bounds) => this.#bursts(bounds) },
    ];
  }

  async open(): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
  }

  async close(): Promise<void> {
    this.#engine.close();
    removeFolder(this.#folder);
  }

  #stockCall(): Case {
    const { fengari, L } = stock();
    fengari.lauxlib.luaL_loadstring(L, fengari.to_luastring("return function() end"));
    fengari.lua.lua_pcall(L, 0, 1, 0);
    const calls = (): void => {
      for (let call = 0; call < BATCH_CALLS; call++) {
        fengari.lua.lua_pushvalue(L, 1);
        fengari.lua.lua_pcall(L, 0, 0, 0);
      }
    };
    const round: Case["round"] = async (bounds) => perCall(await roundOfActions(bounds, calls), BATCH_CALLS);
    return { name: "fengari call", isFloor: true, round };
  }

  #stockLoad(): Case {
    const { fengari, L } = stock();
    const text = fengari.to_luastring(CLASS_TEXT);
    const load = (): void => {
      fengari.lauxlib.luaL_loadstring(L, text);
      fengari.lua.lua_settop(L, 0);
    };
    return { name: "fengari compile 1 KB", isFloor: true, round: (bounds) => roundOfActions(bounds, load) };
  }

  async #calls(bounds: Parameters<Case["round"]>[0], method: string): ReturnType<Case["round"]> {
    const { lua, newHost, database } = this.#onFile();
    database.begin();
    run(lua, "write", ["ada", 1], newHost());
    database.commit();
    const host = newHost();
    const taken = await roundOfActions(bounds, () => {
      for (let call = 0; call < BATCH_CALLS; call++) run(lua, method, [], host);
    });
    database.close();
    return perCall(taken, BATCH_CALLS);
  }

  #loads(bounds: Parameters<Case["round"]>[0]): ReturnType<Case["round"]> {
    const source = { app: "default", name: "Small", file: "classes/Small.lua", text: CLASS_TEXT };
    return roundOfActions(bounds, () => void this.#engine.loadClass(source, ["Work"]));
  }

  async #bursts(bounds: Parameters<Case["round"]>[0]): ReturnType<Case["round"]> {
    const { lua, newHost, database, world } = this.#onFile();
    const wal = `${database.path}-wal`;
    const taken = await roundOfActions(bounds, (index) => {
      database.begin();
      for (let call = 0; call < BURST_CALLS; call++) {
        database.savepoint();
        run(lua, "write", ["ada", index * BURST_CALLS + call], newHost());
        database.release();
      }
      database.commit();
      if ((world.folder.stat(wal)?.sizeBytes ?? 0) > WAL_BYTES_MAX) database.checkpointTruncate();
    });
    database.close();
    return perCall(taken, BURST_CALLS);
  }

  /** The benchmark's class over a fresh object file. */
  #onFile(): { lua: LuaClass; newHost: () => CallHost; database: ObjectDatabase; world: World } {
    const world = realWorld(scratchFolder(this.#folder), silentLogger);
    const catalog = new Catalog(this.#engine, () => {});
    catalog.load([readAppSource("default", new RealFolder(BENCH_FOLDER))]);
    const lua = catalog.classOf("default", "Work");
    const database = ObjectDatabase.open(world.folder, "object.db", this.#settings);
    database.begin();
    for (const migration of lua.migrations) database.migrate(migration);
    database.commit();
    const file: HostFile = {
      object: workObject("alone"),
      database,
      tables: new ObjectTables(database, this.#settings),
    };
    const context: HostContext = { world, settings: this.#settings, catalog, log: silentLogger };
    return { lua, newHost: () => new CallHost(context, file, { kind: "client" }, "method"), database, world };
  }
}

function run(lua: LuaClass, name: string, args: readonly (string | number)[], host: CallHost): void {
  const step = lua.start({ kind: "method", name }, args, host).resume();
  if (step.kind !== "returned") throw new Error(`Work:${name} did not return but ${step.kind}`);
}

function stock(): { fengari: StockFengari; L: object } {
  const fengari = createRequire(import.meta.url)("fengari") as StockFengari;
  return { fengari, L: fengari.lauxlib.luaL_newstate() };
}

function rateOf(floor: string): { figure: "rate"; floors: string[] } {
  return { figure: "rate", floors: [floor] };
}

function performanceClock(): { monotonicMs(): number } {
  return { monotonicMs: () => performance.now() };
}

/** A class of about `bytes`, with methods as people write them. */
function classText(bytes: number): string {
  const head = 'local Small = class "Small"\n';
  const tail = "\nreturn Small\n";
  const method = (n: number): string =>
    `\nfunction Small:step_${n}(amount)\n  local total = (state.store.get("total") or 0) + amount\n  if total < 0 then error { code = "negative" } end\n  state.store.set("total", total)\n  return { total = total }\nend\n`;
  let text = head;
  for (let n = 1; text.length + tail.length < bytes; n++) text += method(n);
  return text + tail;
}
