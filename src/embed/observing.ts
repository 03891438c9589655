/** What an embedded node tells the program around it: its log, and its observations. */
import { asMoonportError } from "../errors.js";
import type { Observer } from "../observation.js";
import type { Logger } from "../world/logger.js";
import { type PinoLoggerOptions, pinoLogger } from "../world/pino-logger.js";
import { isLogger, type MoonportOptions } from "./options.js";

export function loggerOf(log: MoonportOptions["log"]): Logger {
  if (log === undefined) return pinoLogger({ format: "json", level: "warn" });
  return isLogger(log) ? log : pinoLogger({ format: "json", level: "warn", ...log });
}

/** How a line that goes around the logger looks: the watchdog's, when nothing else can speak any more. */
export function logFormatOf(log: MoonportOptions["log"]): PinoLoggerOptions["format"] {
  return log === undefined || isLogger(log) ? "json" : (log.format ?? "json");
}

/**
 * The program's observer; what it throws is logged and reaches nothing in the node.
 * @param logsFaults whether what fails to load is logged: where it does not throw, nobody else may look
 */
export function guardedObserver(observer: Observer | undefined, log: Logger, logsFaults: boolean): Observer {
  return (observation) => {
    const { kind } = observation;
    if (logsFaults && (kind === "class_failed" || kind === "unit_failed" || kind === "module_failed")) {
      const { app, file, line, message } = observation;
      log.warn({ app, file, line, error: message }, "not loaded");
    }
    try {
      observer?.(observation);
    } catch (error) {
      log.error({ error: asMoonportError(error).message, observation: observation.kind }, "the observer threw");
    }
  };
}
