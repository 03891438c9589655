/**
 * The logger of real nodes: pino behind {@link Logger}. JSON lines for machines (`start`), one readable line each for people
 * (`dev`). It writes to stderr, since stdout belongs to results, and synchronously, so that the last line of a dying node is
 * there.
 */
import pino from "pino";
import pretty from "pino-pretty";
import type { LogFields, Logger } from "./logger.js";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

export interface PinoLoggerOptions {
  readonly format: "json" | "pretty";
  readonly level: LogLevel;
  /** File descriptor. Default 2, stderr. */
  readonly descriptor?: number;
  readonly color?: boolean;
}

/** Lines that find no room on the log's disk wait for it; further ones are lost. */
const WAITING_BYTES_MAX = 4 * 1024 * 1024;

export function pinoLogger({ format, level, descriptor = 2, color = false }: PinoLoggerOptions): Logger {
  const settings: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { error: readable, err: readable, cause: readable },
  };
  return adapt(pino(settings, destination(format, descriptor, color)));
}

function destination(format: "json" | "pretty", descriptor: number, color: boolean): pino.DestinationStream {
  const plain = pino.destination({ dest: descriptor, sync: true, maxLength: WAITING_BYTES_MAX });
  // Unheard, the error would be thrown at whoever logs, in the middle of a call.
  plain.on("error", () => {});
  if (format === "json") return plain;
  return pretty({
    destination: plain,
    sync: true,
    colorize: color,
    translateTime: "SYS:HH:MM:ss.l",
    singleLine: true,
    errorLikeObjectKeys: [],
  });
}

function adapt(logger: pino.Logger): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    child: (fields: LogFields) => adapt(logger.child(fields)),
  };
}

/** An error's code, message and stack; anything else as it is. */
function readable(value: unknown): unknown {
  return value instanceof Error ? pino.stdSerializers.err(value) : value;
}
