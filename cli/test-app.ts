/** `moonport test`, from the app's folder to the last line: reads, runs, tells. */
import fs from "node:fs";
import { readAppSource, readTestSources } from "../src/app-source.js";
import { runTests, type TestFailure, type TestResult } from "../src/app-tests/run-tests.js";
import { MoonportError } from "../src/errors.js";
import { WorldRevoked } from "../src/testing/virtual-world.js";
import type { PlainValue } from "../src/values.js";
import { silentLogger } from "../src/world/logger.js";
import { RealFolder } from "../src/world/real-folder.js";
import { realWorld } from "../src/world/real-world.js";
import type { Context } from "./context.js";
import { scratchFolder } from "./scratch-folder.js";

/** A test failed: the class, or the test, refused or failed. */
const FAILED_EXIT = 4;

/** @param files paths in the app; none: all of `tests/` */
export async function testApp(context: Context, files: readonly string[], only: string | undefined): Promise<void> {
  const { output, app, dir, settings } = context;
  const folder = new RealFolder(dir);
  const sources = readTestSources(app, folder, files);
  if (sources.length === 0) {
    throw MoonportError.of("bad_option", "there are no tests", {
      hint: "a file in tests/ has them: tests/auction.lua",
    });
  }
  passOverCrashedNodes();
  const scratch = scratchFolder("test");
  try {
    const results = await runTests({
      app: readAppSource(app, folder),
      files: sources,
      settings,
      scratch,
      world: realWorld(scratch, silentLogger),
      ...(only !== undefined && { only }),
      report: ({ file, name, failure }) =>
        output.talk(`${failure === undefined ? "passed" : "FAILED"}  ${file}  ${name}`),
    });
    const failures = results.flatMap((result) =>
      result.failure === undefined ? [] : [textOf(result, result.failure)],
    );
    const failed = failures.length;
    const passed = results.length - failed;
    if (results.length === 0) throw MoonportError.of("bad_option", `no test has "${only}" in its name`);
    output.result([...failures, failed === 0 ? `${passed} passed` : `${passed} passed, ${failed} failed`].join("\n"), {
      passed,
      failed,
      tests: results.map(documentOf),
    });
    if (failed > 0) process.exitCode = FAILED_EXIT;
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

/** What a node still had under way when its power went runs into the world that is gone. */
function passOverCrashedNodes(): void {
  process.on("unhandledRejection", (reason) => {
    if (!(reason instanceof WorldRevoked)) throw reason;
  });
}

function textOf({ file, name, said }: TestResult, failure: TestFailure): string {
  const { at, code, message, expected, got, hint } = failure;
  const lines = [`${at}: ${message}${told(code)}`, `  in "${name}" of ${file}`];
  if (expected !== undefined) lines.push(`  expected  ${expected}`);
  if (got !== undefined) lines.push(`  got       ${got}`);
  if (hint !== undefined) lines.push(`  hint: ${hint}`);
  for (const text of said) for (const line of text.split("\n")) lines.push(`  | ${line}`);
  return `${lines.join("\n")}\n`;
}

/** Codes that say no more than the message are left out. */
function told(code: string): string {
  return code === "expectation_failed" || code === "method_error" ? "" : ` (${code})`;
}

function documentOf({ failure, ...result }: TestResult): PlainValue {
  const outcome = failure === undefined ? "passed" : "failed";
  return { ...result, said: [...result.said], outcome, ...(failure !== undefined && { failure: { ...failure } }) };
}
