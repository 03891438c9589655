import fs from "node:fs";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { Logger } from "../../src/world/logger.js";
import { type PinoLoggerOptions, pinoLogger } from "../../src/world/pino-logger.js";
import { temporaryFolder } from "../support/temporary-folder.js";

function logTo(options: Omit<PinoLoggerOptions, "descriptor">): { log: Logger; lines: () => string[] } {
  const file = path.join(temporaryFolder(), "log");
  const descriptor = fs.openSync(file, "w");
  onTestFinished(() => fs.closeSync(descriptor));
  const lines = (): string[] => fs.readFileSync(file, "utf8").trimEnd().split("\n");
  return { log: pinoLogger({ ...options, descriptor }), lines };
}

describe("the logger of real nodes", () => {
  it("writes JSON lines that machines read, fields of its ancestors included, the moment they are logged", () => {
    const { log, lines } = logTo({ format: "json", level: "info" });
    log.debug({}, "not shown");
    log.child({ object: "default/Counter/a" }).info({ seq: 3 }, "landed");
    expect(lines().map((line) => JSON.parse(line) as unknown)).toEqual([
      { level: "info", time: expect.stringMatching(/^\d{4}-.*Z$/), object: "default/Counter/a", seq: 3, msg: "landed" },
    ]);
  });

  it("throws nothing at whoever logs while the log's disk is full", () => {
    const descriptor = fs.openSync("/dev/full", "w");
    onTestFinished(() => fs.closeSync(descriptor));
    const log = pinoLogger({ format: "json", level: "info", descriptor });
    expect(() => log.warn({}, "first")).not.toThrow();
    expect(() => log.warn({}, "second")).not.toThrow();
  });

  it("keeps an error's message, code and stack, and any other value as it is", () => {
    const { log, lines } = logTo({ format: "json", level: "warn" });
    log.error({ error: MoonportError.of("storage_full", "no space left"), cause: "the disk" }, "failed");
    expect(JSON.parse(lines()[0] ?? "")).toMatchObject({
      error: { message: "no space left", code: "storage_full", stack: expect.stringContaining("MoonportError") },
      cause: "the disk",
    });
  });

  it("writes one readable line each for people", () => {
    const { log, lines } = logTo({ format: "pretty", level: "info" });
    log.warn({ object: "default/Counter/a" }, "the flight failed");
    expect(lines()).toHaveLength(1);
    expect(lines()[0]).toMatch(/WARN: the flight failed \{"object":"default\/Counter\/a"\}$/);
  });
});
