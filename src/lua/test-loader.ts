/**
 * Files of an app's own tests: their top names the tests, and each runs later as a call of its own.
 *
 * A test is Lua code like any other, with the app's classes, `require`, `expect`, and a few questions to whoever runs it
 * (`advance`, `restart`, `events`, `unit`, `call_as`), for whose answers it stands still as for a call.
 */
import { MoonportError } from "../errors.js";
import type { PlainValue } from "../values.js";
import type { Budget } from "./budget.js";
import { type CodeHost, type LuaInvocation, TEST_RUNNER, type TestSource } from "./contract.js";
import { EXPECT_LUA } from "./expect-lua.js";
import { type LuaClosure, type LuaFunction, type LuaState, type Table, type TValue, TYPE } from "./fengari/types.js";
import { Arguments, typeName } from "./globals/read-arguments.js";
import { Reference } from "./globals/references.js";
import { Invocation, type Machine } from "./invocation.js";
import { compile, fileEnvironment, fileInvalid, runTop } from "./lua-file.js";
import type { Modules } from "./modules.js";
import { argument, isFunction, isTable } from "./runtime.js";
import type { Globals } from "./sandbox.js";
import { waitFor } from "./waits.js";

/** What only methods and units have. */
export const ABSENT = {
  state: "a test looks at objects from outside: call their methods",
  emit: 'events are an object\'s; events("Class/key") lists those of an object',
  schedule: "timers are an object's; call a method that schedules",
  destroy: "only a method ends its own object",
  send: "only a method sends",
  class: "a test is no class; classes are in classes/",
};

/** The globals that tests have beside those of all files. */
export const TEST_GLOBALS = ["test", "expect", "advance", "restart", "events", "unit", "call_as"] as const;

export interface LoadedTest {
  readonly name: string;
  readonly line: number;
  start(host: CodeHost): StartedTest;
}

export interface StartedTest {
  readonly invocation: LuaInvocation;
  /** The line of the file that was running when the test failed. */
  failedAt(): number | undefined;
}

/** @throws MoonportError `class_invalid` with the file and its line */
export function loadTestFile(
  machine: Machine,
  source: TestSource,
  globals: Globals,
  modules: Modules,
  budget: (inSlices: boolean) => Budget,
): LoadedTest[] {
  return new TestFile(machine, source, budget).load(globals, modules);
}

class TestFile {
  readonly #arguments: Arguments;
  readonly #tests = new Map<string, LoadedTest>();
  #isLoaded = false;

  constructor(
    readonly machine: Machine,
    readonly source: TestSource,
    readonly budget: (inSlices: boolean) => Budget,
  ) {
    this.#arguments = new Arguments(machine);
  }

  load(globals: Globals, modules: Modules): LoadedTest[] {
    const { machine, source } = this;
    const { runtime } = machine;
    const visible: Globals = new Map([...globals].filter(([name]) => !Object.hasOwn(ABSENT, name)));
    const environment = fileEnvironment(machine, visible, ABSENT);
    const functions: Record<string, LuaFunction> = { ...this.#functions(), require: modules.requirer().function };
    for (const [name, f] of Object.entries(functions)) runtime.addField(environment, name, runtime.function(f));
    runtime.addField(environment, "expect", this.#expect(visible));
    this.#run(source.file, source.text, environment);
    this.#isLoaded = true;
    return [...this.#tests.values()];
  }

  #run(file: string, text: string, environment: Table): TValue | undefined {
    const closure = compile(this.machine, { ...this.source, file, text });
    (closure.value as LuaClosure).upvals[0]?.setfrom(this.machine.runtime.tableValue(environment));
    return runTop(this.machine, { ...this.source, file, text }, closure, this.budget(false));
  }

  #functions(): Record<string, LuaFunction> {
    const ask = (name: string, usage: string, read: (L: LuaState) => PlainValue[]): LuaFunction => {
      return (L) =>
        waitFor(this.machine, L, usage, { kind: "call", className: TEST_RUNNER, key: "", method: name, args: read(L) });
    };
    const args = this.#arguments;
    return {
      test: (L) => this.#test(L),
      advance: ask("advance", "advance(duration)", (L) => [args.durationMs(L, argument(L, 1), 'advance("1h")')]),
      restart: ask("restart", "restart()", () => []),
      events: ask("events", "events(object)", (L) => [this.#objectNamed(L)]),
      unit: ask("unit", "unit(name, request)", (L) => [args.text(L, 1, "unit(name, request)"), ...args.rest(L, 2)]),
      call_as: ask("call_as", "call_as { id = }", (L) => args.rest(L, 1)),
    };
  }

  #test(L: LuaState): number {
    const { runtime } = this.machine;
    if (this.#isLoaded) throw runtime.fail(L, "test(name, function) is for the top of a file, not for inside a test");
    const name = this.#arguments.text(L, 1, "test(name, function)");
    const f = argument(L, 2);
    if (f?.type !== TYPE.luaFunction) {
      throw runtime.fail(L, `test(name, function): argument 2 must be a function, not ${typeName(f)}`);
    }
    if (this.#tests.has(name)) throw runtime.fail(L, `a test above is called "${name}", too`);
    const body = runtime.value(f.type, f.value);
    const line = (f.value as LuaClosure).p.linedefined;
    this.#tests.set(name, { name, line, start: (host) => this.#start(name, body, host) });
    return 0;
  }

  #start(name: string, body: TValue, host: CodeHost): StartedTest {
    const { machine, source } = this;
    let failedAt: number | undefined;
    const invocation = new Invocation(machine, {
      owner: name,
      subject: "test",
      id: `${source.file} ${name}`,
      object: "",
      entry: "test",
      function: body,
      args: [],
      host,
      methods: new Map(),
      budget: this.budget(true),
      threw: (thread) => {
        failedAt = machine.errors.lineIn(thread, source.file);
      },
    });
    return { invocation, failedAt: () => failedAt };
  }

  /** `"Class/key"`, or a reference. */
  #objectNamed(L: LuaState): string {
    const value = argument(L, 1);
    const reference = isTable(value) ? value.value.host : null;
    if (reference instanceof Reference) return `${reference.className}/${reference.key}`;
    return this.#arguments.text(L, 1, 'events("Class/key")');
  }

  /** `expect`, which is written in Lua: its `fails` calls what may stand still. */
  #expect(globals: Globals): TValue {
    const { machine } = this;
    const { runtime } = machine;
    const environment = fileEnvironment(machine, globals);
    const helpers: Record<string, LuaFunction> = {
      same: (L) => runtime.push(L, runtime.boolean(this.#same(argument(L, 1), argument(L, 2)))),
      show: (L) => runtime.push(L, runtime.string(this.#show(argument(L, 1)))),
      fail: (L) => this.#fail(L),
    };
    for (const [name, f] of Object.entries(helpers)) runtime.addField(environment, name, runtime.function(f));
    const expect = this.#run("expect", EXPECT_LUA, environment);
    if (!isFunction(expect)) throw fileInvalid(this.source, undefined, "expect is a function");
    return runtime.value(expect.type, expect.value);
  }

  #fail(L: LuaState): never {
    const usage = "fail(what, expected, got)";
    const [message, expected, got] = [1, 2, 3].map((index) => this.#arguments.text(L, index, usage));
    throw MoonportError.byClass("expectation_failed", `${message}`, { details: { expected, got } });
  }

  /** Values that could travel are the same when they would arrive the same; others when they are one. */
  #same(one: TValue | undefined, other: TValue | undefined): boolean {
    if (one?.type === other?.type && one?.value === other?.value) return true;
    const [a, b] = [this.#plain(one), this.#plain(other)];
    return a !== undefined && b !== undefined && isSame(a, b);
  }

  #show(value: TValue | undefined): string {
    const plain = this.#plain(value);
    return plain === undefined ? typeName(value) : shown(plain);
  }

  /** `undefined` for what cannot travel. */
  #plain(value: TValue | undefined): PlainValue | undefined {
    try {
      return this.machine.values.toPlain(value, "value");
    } catch (refusal) {
      if (refusal instanceof MoonportError) return undefined;
      throw refusal;
    }
  }
}

function isSame(a: PlainValue, b: PlainValue): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return a instanceof Uint8Array && b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  }
  // An empty table is a map here and may have been meant as an array.
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  if (keys.length !== others.length) return false;
  if (keys.length > 0 && Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [new Map(Object.entries(a)), new Map(Object.entries(b))];
  return keys.every((key) => {
    const [one, other] = [left.get(key), right.get(key)];
    return one !== undefined && other !== undefined && isSame(one, other);
  });
}

/** As Lua would write it. */
function shown(value: PlainValue): string {
  if (value === null) return "nil";
  if (typeof value !== "object") return JSON.stringify(value);
  if (value instanceof Uint8Array)
    return `blob(${value.length} bytes: ${Buffer.from(value).toString("hex").slice(0, 64)})`;
  const parts = Array.isArray(value)
    ? value.map(shown)
    : Object.entries(value).map(
        ([key, one]) => `${/^[A-Za-z_]\w*$/.test(key) ? key : `[${JSON.stringify(key)}]`} = ${shown(one)}`,
      );
  return parts.length === 0 ? "{}" : `{ ${parts.join(", ")} }`;
}
