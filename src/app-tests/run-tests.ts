/**
 * Runs an app's own tests, `tests/*.lua`: each on a node of its own that has never been used, one after the other.
 *
 * The file is loaded anew for each of its tests, so that no test can leave anything to another.
 */
import type { AppSource } from "../app-source.js";
import { asMoonportError, MoonportError } from "../errors.js";
import {
  type LuaInvocation,
  TEST_RUNNER,
  type TestSource,
  type WaitAnswer,
  type WaitRequest,
} from "../lua/contract.js";
import { createLuaEngine, type TestEngine } from "../lua/engine.js";
import { luaLimits } from "../lua/limits.js";
import type { LoadedTest } from "../lua/test-loader.js";
import type { Settings } from "../settings/settings.js";
import type { PlainObject, PlainValue } from "../values.js";
import { type LogFields, type Logger, silentLogger } from "../world/logger.js";
import { type World, yieldTurn } from "../world/world.js";
import { TestHost } from "./test-host.js";
import { TestNode } from "./test-node.js";

export interface TestFailure {
  readonly code: string;
  readonly message: string;
  /** `tests/auction.lua:12` */
  readonly at: string;
  readonly hint?: string;
  /** Of `expect`. */
  readonly expected?: string;
  readonly got?: string;
}

export interface TestResult {
  readonly file: string;
  /** Where the test begins. */
  readonly line: number;
  readonly name: string;
  /** Absent when it passed. */
  readonly failure?: TestFailure;
  /** What the test, and the classes while it ran, said to the log. */
  readonly said: readonly string[];
}

export interface TestRun {
  readonly app: AppSource;
  readonly files: readonly TestSource[];
  readonly settings: Settings;
  /** An empty folder. */
  readonly scratch: string;
  /** The real one: tests are stopped when they run for ever. */
  readonly world: Pick<World, "clock" | "timers">;
  /** Only tests whose name holds this text. */
  readonly only?: string;
  report(result: TestResult): void;
}

/** A long wait of a test makes many of these; none of them is what it tests. */
const CALM: Partial<Settings> = { HEALTH_INTERVAL_MS: 0, OBJECT_IDLE_MS: 3_600_000 };
/** Running time of a test's own code. */
const TEST_BUDGET_MS = 10_000;

/** @throws MoonportError `class_invalid` for a file of the app or of its tests that does not load */
export async function runTests(run: TestRun): Promise<TestResult[]> {
  const loaded = run.files.map((source) => ({ source, tests: new Loaded(run, source).tests }));
  const results: TestResult[] = [];
  for (const { source, tests } of loaded) {
    for (const [index, { name }] of tests.entries()) {
      if (run.only !== undefined && !name.includes(run.only)) continue;
      const result = await runOne(run, source, index, results.length);
      results.push(result);
      run.report(result);
    }
  }
  return results;
}

/** One file, in an engine of its own. */
class Loaded {
  readonly #engine: TestEngine;
  readonly tests: readonly LoadedTest[];

  constructor({ app, settings, world }: TestRun, source: TestSource) {
    const limits = { ...luaLimits(settings), methodBudgetMs: TEST_BUDGET_MS };
    this.#engine = createLuaEngine({ clock: world.clock, limits, engineLog: silentLogger });
    const names = app.classes.map(({ name }) => name);
    const modules = this.#engine.loadModules(app.modules ?? [], names);
    this.tests = this.#engine.loadTests(source, names, modules);
  }

  close(): void {
    this.#engine.close();
  }
}

async function runOne(run: TestRun, source: TestSource, index: number, number: number): Promise<TestResult> {
  const said: string[] = [];
  const node = await TestNode.open({
    app: run.app,
    settings: { ...run.settings, ...CALM },
    root: `${run.scratch}/${number}/data`,
    log: sayingLogger((text) => said.push(text)),
  });
  const file = new Loaded(run, source);
  const test = file.tests[index];
  if (test === undefined)
    throw MoonportError.of("class_invalid", `${source.file} has other tests each time it is loaded`);
  const { invocation, failedAt } = test.start(new TestHost(node, (text) => said.push(text)));
  try {
    const error = await toTheEnd(run, invocation, node);
    const { name, line } = test;
    const failure = error && failureOf(error, `${source.file}:${failedAt() ?? line}`);
    return { file: source.file, line, name, said, ...(failure !== undefined && { failure }) };
  } finally {
    invocation.abandon();
    node.close();
    file.close();
  }
}

/** @returns what the test failed with */
async function toTheEnd(run: TestRun, invocation: LuaInvocation, node: TestNode): Promise<MoonportError | undefined> {
  let step = invocation.resume();
  for (;;) {
    switch (step.kind) {
      case "returned":
        return undefined;
      case "failed":
        return asMoonportError(step.error);
      case "slice":
        await yieldTurn(run.world);
        step = invocation.resume();
        break;
      case "wait":
        step = invocation.resume(await answer(step.request, node));
    }
  }
}

async function answer(request: WaitRequest, node: TestNode): Promise<WaitAnswer> {
  try {
    return { kind: "returned", value: await outcomeOf(request, node) };
  } catch (thrown) {
    return { kind: "failed", error: asMoonportError(thrown) };
  }
}

async function outcomeOf(request: WaitRequest, node: TestNode): Promise<PlainValue> {
  if (request.kind === "find") return node.find(request.className, request.query);
  if (request.kind !== "call") throw MoonportError.of("method_error", `a test does not ${request.kind}`);
  const { className, key, method, args } = request;
  if (className !== TEST_RUNNER) return node.call(`${className}/${key}`, method, args);
  switch (method) {
    case "advance":
      await node.advance(Number(args[0]));
      return null;
    case "restart":
      await node.restart();
      return null;
    case "events":
      return node.events(String(args[0]));
    case "unit":
      return node.unit(String(args[0]), tableOf("unit(name, request)", args[1]));
    default: {
      const { id, claims } = tableOf("call_as { id = }", args[0]);
      node.caller = {
        kind: "client",
        ...(typeof id === "string" && { id }),
        ...(claims !== undefined && { claims: tableOf("call_as: claims", claims) }),
      };
      return null;
    }
  }
}

function tableOf(usage: string, value: PlainValue | undefined): PlainObject {
  if (value === undefined || value === null) return {};
  if (typeof value === "object" && !Array.isArray(value) && !(value instanceof Uint8Array)) return value as PlainObject;
  throw MoonportError.of("bad_value", `${usage} takes a table of names`);
}

function failureOf(error: MoonportError, at: string): TestFailure {
  const { code, hint, details = {} } = error;
  const { expected, got } = details;
  // Lua's own messages begin with the place, which is told apart.
  const message = error.message.startsWith(`${at}: `) ? error.message.slice(at.length + 2) : error.message;
  return {
    code,
    message,
    at,
    ...(hint !== undefined && { hint }),
    ...(typeof expected === "string" && { expected }),
    ...(typeof got === "string" && { got }),
  };
}

/** What classes say, and the tracebacks of their mistakes; not what the node says of itself. */
function sayingLogger(say: (text: string) => void): Logger {
  const tell = (fields: LogFields, message: string): void => {
    if (fields.object === undefined && fields.unit === undefined) return;
    const { traceback } = fields;
    say(`${fields.object ?? fields.unit}: ${message}${typeof traceback === "string" ? `\n${traceback}` : ""}`);
  };
  return { debug() {}, info: tell, warn: tell, error: tell, child: () => sayingLogger(say) };
}
