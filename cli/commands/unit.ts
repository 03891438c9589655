/** `moonport unit NAME [body]` */
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import { checkUnitName } from "../../src/identity.js";
import type { UnitRequest, UnitResponse } from "../../src/node-api.js";
import { SETTINGS } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { parseWireJson } from "../../src/wire/wire-json.js";
import { type Context, collect, contextOf, wholeNumber } from "../context.js";
import { withNode } from "../find-node.js";
import { jsonText } from "../output.js";
import { argumentOf, callIdOf } from "../words.js";

interface UnitFlags {
  readonly method?: string;
  readonly path: string;
  readonly query?: readonly string[];
  readonly id?: string;
  readonly timeout?: number;
}

/** A response of 400 and above: the unit itself refused or failed. */
const REFUSED_EXIT = 4;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

export function addUnit(program: Command): void {
  const command = program.command("unit");
  command
    .description("run a unit and print its response")
    .argument("<name>", "units/<name>.lua")
    .argument("[body]", "JSON where it parses as JSON, else text")
    .addOption(command.createOption("--method <method>", "POST with a body, else GET").choices(METHODS))
    .option("--path <path>", "what follows the unit's name in its address", "/")
    .option("--query <name=value>", "a query parameter; may be repeated", collect)
    .option("--id <id>", "the request's id: repeated with it, nothing is done twice (default: a new one)")
    .option(
      "--timeout <ms>",
      "by when it is to end; calls that it has begun are waited for, 15 s more at a running node",
      wholeNumber(1, SETTINGS.CALL_TIMEOUT_MS.max),
    )
    .addHelpText(
      "after",
      `
Examples:
  moonport unit checkout '{"lot":"lot-42"}'
  moonport unit search --query text=vase --path /new`,
    )
    .action(async (name: string, body: string | undefined, flags: UnitFlags, self: Command) => {
      await unit(contextOf(self), name, body, flags);
    });
}

async function unit(context: Context, name: string, word: string | undefined, flags: UnitFlags): Promise<void> {
  checkUnitName(name);
  const callId = callIdOf(flags.id);
  const request: UnitRequest = {
    app: context.app,
    unit: name,
    method: flags.method ?? (word === undefined ? "GET" : "POST"),
    path: flags.path.startsWith("/") ? flags.path : `/${flags.path}`,
    query: queryOf(flags.query ?? []),
    headers: {},
    ...(word !== undefined && { body: argumentOf(word) }),
    caller: { kind: "client" },
    callId,
    ...(flags.timeout !== undefined && { timeoutMs: flags.timeout }),
  };
  const response = await withNode(context, "unit", ({ node }) => node.runUnit(request));
  const { status, headers } = response;
  const body = bodyOf(response);
  const isText = typeof body === "string" && !isJson(response);
  context.output.result(isText ? body : jsonText(body), { status, headers: { ...headers }, body, id: callId });
  if (status < 400) return;
  context.output.talk(`the unit answered ${status}`);
  process.exitCode = REFUSED_EXIT;
}

function queryOf(words: readonly string[]): UnitRequest["query"] {
  const query = new Map<string, string[]>();
  for (const word of words) {
    const sign = word.indexOf("=");
    if (sign < 1) throw MoonportError.of("bad_option", `--query takes NAME=VALUE, not "${word}"`);
    const name = word.slice(0, sign);
    query.set(name, [...(query.get(name) ?? []), word.slice(sign + 1)]);
  }
  return Object.fromEntries([...query].map(([name, values]) => [name, values.length === 1 ? `${values[0]}` : values]));
}

function isJson({ headers }: UnitResponse): boolean {
  return /json/.test(headers["content-type"] ?? "");
}

/** JSON as its value; what only claims to be JSON as the text that it is. */
function bodyOf(response: UnitResponse): PlainValue {
  const { body } = response;
  if (body === "") return null;
  if (typeof body !== "string" || !isJson(response)) return body;
  try {
    return parseWireJson(body, "the body", SETTINGS.VALUE_DEPTH_MAX.max);
  } catch {
    return body;
  }
}
