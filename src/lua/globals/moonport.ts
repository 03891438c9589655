/** Everything of Moonport that a class sees as a global. */
import { createHash } from "node:crypto";
import { MoonportError } from "../../errors.js";
import type { PlainValue } from "../../values.js";
import { type LuaFunction, type Table, TYPE } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, isTable } from "../runtime.js";
import type { Globals } from "../sandbox.js";
import { ARRAY_MARK } from "../values.js";
import { Effects } from "./effects.js";
import { findFunction } from "./find.js";
import { logFunctions, printFunction } from "./logging.js";
import { osFunctions } from "./os.js";
import { Arguments, typeName } from "./read-arguments.js";
import { stateTable } from "./state.js";

export function installMoonport(machine: Machine, globals: Globals): void {
  const { runtime, values } = machine;
  const frozen = (name: string, table: Table): void => {
    globals.set(name, runtime.tableValue(runtime.freeze(table, `${name}.%s cannot be changed`)));
  };
  const effects = new Effects(machine);
  const functions: Record<string, LuaFunction> = {
    ...effects.functions(),
    ...valueFunctions(machine),
    now: (L) => runtime.push(L, runtime.value(TYPE.number, runtime.codeHost(L, "now").startedMs / 1_000)),
    uuid: (L) => runtime.push(L, runtime.string(runtime.codeHost(L, "uuid").uuid())),
    find: findFunction(machine),
    print: printFunction(machine),
  };
  for (const [name, f] of Object.entries(functions)) globals.set(name, runtime.function(f));
  globals.set("null", values.null);
  frozen("state", stateTable(machine));
  frozen("schedule", effects.schedule());
  frozen("json", runtime.functions(jsonFunctions(machine)));
  frozen("hash", runtime.functions(hashFunctions(machine)));
  frozen("log", runtime.functions(logFunctions(machine)));
  frozen("os", runtime.functions(osFunctions(machine)));
}

function valueFunctions(machine: Machine): Record<string, LuaFunction> {
  const { runtime, values } = machine;
  return {
    array: (L) => {
      const value = argument(L, 1) ?? runtime.tableValue(runtime.table());
      if (!isTable(value)) throw runtime.fail(L, `array{...} takes a table, not ${typeName(value)}`);
      const table = value.value as Table;
      if (table.frozen === null) table.host = ARRAY_MARK;
      return runtime.push(L, runtime.value(value.type, value.value));
    },
    blob: (L) => {
      const value = argument(L, 1);
      const bytes = value && values.bytesOf(value);
      if (bytes === undefined) throw runtime.fail(L, `blob(bytes) takes a string of bytes, not ${typeName(value)}`);
      return runtime.push(L, values.blob(bytes));
    },
  };
}

function jsonFunctions(machine: Machine): Record<string, LuaFunction> {
  const { runtime, values } = machine;
  const args = new Arguments(machine);
  return {
    encode: (L) => runtime.push(L, runtime.string(encodeJson(values.toPlain(argument(L, 1), "value")))),
    decode: (L) => {
      const text = args.text(L, 1, "json.decode(text)");
      return runtime.push(L, values.toLua(decodeJson(text)));
    },
  };
}

/** @throws MoonportError `bad_value` for bytes */
export function encodeJson(value: PlainValue): string {
  return JSON.stringify(value, (_key, inner: PlainValue) => {
    if (inner instanceof Uint8Array) {
      throw MoonportError.of("bad_value", "JSON has no bytes", { hint: "encode them as text first" });
    }
    return inner;
  });
}

function decodeJson(text: string): PlainValue {
  try {
    return JSON.parse(text) as PlainValue;
  } catch (cause) {
    throw MoonportError.of("bad_json", `json.decode: ${(cause as Error).message}`, { cause });
  }
}

function hashFunctions(machine: Machine): Record<string, LuaFunction> {
  const { runtime, values } = machine;
  return {
    sha256: (L) => {
      const value = argument(L, 1);
      const bytes = value && values.bytesOf(value);
      if (bytes === undefined) throw runtime.fail(L, `hash.sha256(text) takes text or a blob, not ${typeName(value)}`);
      runtime.chargeWork(bytes.length);
      return runtime.push(L, runtime.string(createHash("sha256").update(bytes).digest("hex")));
    },
  };
}
