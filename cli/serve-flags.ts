/** The flags of `start` and `dev`, apart from what runs a node: a command line is read without loading a server. */
import type { Command } from "commander";
import type { LogLevel } from "../src/world/pino-logger.js";
import { collect, wholeNumber } from "./context.js";
import { addFleetFlags, type FleetFlags } from "./fleet-flags.js";

export interface ServeFlags extends FleetFlags {
  readonly host: string;
  readonly port: number;
  readonly auth?: string;
  readonly allowOrigin?: readonly string[];
  readonly flights?: boolean;
  readonly logLevel: LogLevel;
}

const LOG_LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error", "silent"];

export function addServeFlags(command: Command): Command {
  return addFleetFlags(command)
    .option("--host <address>", "the address to listen on; any but a loopback one needs --auth", "127.0.0.1")
    .option("--port <port>", "the port to listen on; 0 picks a free one", wholeNumber(0, 65_535), 7070)
    .option("--auth <file>", "the tokens that are let in (docs/auth.md); without it everybody on this machine is")
    .option("--allow-origin <origin>", "pages of this origin may reach the node; may be repeated", collect)
    .option("--flights", "show each flight that lands")
    .addOption(
      command.createOption("--log-level <level>", "what the log on stderr shows").choices(LOG_LEVELS).default("info"),
    );
}
