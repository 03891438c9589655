#!/usr/bin/env node
/** The `moonport` command: reads the command line, runs one command, ends with the exit code of what came out. */
import { CommanderError } from "commander";
import { MoonportError } from "../src/errors.js";
import { Output } from "./output.js";
import { buildProgram } from "./program.js";
import { watchOutput } from "./stdout-reader.js";

watchOutput();

// A token on the command line is not for everybody who lists the machine's processes.
if (process.argv.some((word) => word.startsWith("--token"))) process.title = "moonport";

process.exitCode = await run(process.argv.slice(2));

async function run(words: readonly string[]): Promise<number> {
  try {
    await buildProgram().parseAsync([...words], { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (thrown) {
    const error = thrown instanceof CommanderError ? usageError(thrown) : thrown;
    return error === undefined ? 0 : outputFor(words).fail(error);
  }
}

/** What commander says of a wrong command line, as an error of ours; nothing when it only showed help. */
function usageError(error: CommanderError): MoonportError | undefined {
  if (error.exitCode === 0) return undefined;
  if (error.code === "commander.help") return MoonportError.of("bad_option", "no command is given");
  const [message = "", ...rest] = error.message.replace(/^error: /, "").split("\n");
  const suggestion = /Did you mean (.*)\?/i.exec(rest.join(" "))?.[1];
  const hint = suggestion === undefined ? usageHint(error.code) : `did you mean ${suggestion}?`;
  return MoonportError.of("bad_option", message, hint === undefined ? {} : { hint });
}

function usageHint(code: string): string | undefined {
  if (code === "commander.unknownCommand") return "moonport --help lists the commands";
  if (code === "commander.unknownOption") return "words after -- are arguments, even if they begin with a dash";
  return undefined;
}

/** The command line may be what is wrong, so the two flags that matter for saying so are looked up by hand. */
function outputFor(words: readonly string[]): Output {
  const end = words.indexOf("--");
  const flags = end < 0 ? words : words.slice(0, end);
  return new Output({ json: flags.includes("--json"), quiet: flags.includes("--quiet") });
}
