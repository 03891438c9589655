/** `find "Auction" { where = "top > 100", order = "-top" }`: what methods and units ask directories. */
import { checkClassName } from "../../identity.js";
import type { PlainObject, PlainValue } from "../../values.js";
import type { DirectoryQuery } from "../contract.js";
import type { LuaFunction, LuaState, TValue } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { waitFor } from "../waits.js";
import { Arguments } from "./read-arguments.js";

const OPTIONS = ["where", "params", "order", "limit", "after", "count"] as const;
/** Code may make up names as it goes. */
const CLASSES_KEPT_MAX = 1_000;

export function findFunction(machine: Machine): LuaFunction {
  const { runtime } = machine;
  const args = new Arguments(machine);
  const ofClass = new Map<string, TValue>();
  return (L) => {
    const className = args.text(L, 1, 'find "Class" { ... }');
    checkClassName(className);
    let ask = ofClass.get(className);
    if (ask === undefined) {
      if (ofClass.size >= CLASSES_KEPT_MAX) ofClass.clear();
      ask = runtime.function((inner) => {
        const query = queryOf(machine, args, inner, className);
        return waitFor(machine, inner, `find "${className}"`, { kind: "find", className, query });
      });
      ofClass.set(className, ask);
    }
    return runtime.push(L, runtime.value(ask.type, ask.value));
  };
}

function queryOf(machine: Machine, args: Arguments, L: LuaState, className: string): DirectoryQuery {
  const usage = `find "${className}" { where =, params =, order =, limit =, after =, count = }`;
  const options = args.options(L, 1, usage, OPTIONS);
  const text = (name: (typeof OPTIONS)[number]): string | undefined => args.optionText(L, options, name, usage);
  const plain = (name: (typeof OPTIONS)[number]): PlainValue | undefined => {
    const value = options.get(name);
    return value === undefined ? undefined : machine.values.toPlain(value, name);
  };
  const [where, order, after] = [text("where"), text("order"), text("after")];
  const [limit, count, params] = [plain("limit"), plain("count"), plain("params")];
  if (limit !== undefined && typeof limit !== "number") throw machine.runtime.fail(L, `${usage}: limit is a number`);
  if (count !== undefined && typeof count !== "boolean")
    throw machine.runtime.fail(L, `${usage}: count is true or false`);
  if (params !== undefined && !isTable(params))
    throw machine.runtime.fail(L, `${usage}: params is a list or a table of names`);
  return {
    ...(where !== undefined && { where }),
    ...(params !== undefined && { params }),
    ...(order !== undefined && { order }),
    ...(limit !== undefined && { limit }),
    ...(after !== undefined && { after }),
    ...(count !== undefined && { count }),
  };
}

function isTable(value: PlainValue): value is PlainObject | PlainValue[] {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}
