/**
 * Tables of Lua code with what becomes of it, test/fixtures/lua/*.lua. A case is
 *
 *     --- its name
 *     --! the call fails, and its message has this text; `(code) text` asks for the code, too
 *     --= the call returns this JSON
 *     --# the call is killed for this: instructions, memory, depth
 *     the code of a method, on any number of lines, with Auction being another class
 *
 * and has one of the three marks. What comes before the first case is for readers.
 */
import fs from "node:fs";

export type LuaCase = {
  readonly name: string;
  readonly code: string;
} & (
  | { readonly kind: "fails"; readonly errorCode: string | undefined; readonly text: string }
  | { readonly kind: "returns"; readonly value: unknown }
  | { readonly kind: "killed"; readonly by: string }
);

/** @throws Error for a case that says nothing, or something else */
export function luaCases(file: string): LuaCase[] {
  const [, ...cases] = `\n${fs.readFileSync(file, "utf8")}`.split(/\n--- /);
  return cases.map((text) => {
    const [, name = "", sign, outcome = "", code = ""] = /^([^\n]*)\n--([!=#]) ([^\n]*)\n(.*)$/s.exec(text) ?? [];
    if (sign === "=") return { name, code, kind: "returns", value: JSON.parse(outcome) };
    if (sign === "#") return { name, code, kind: "killed", by: outcome };
    if (sign !== "!") throw new Error(`${file}: a case is a name, an outcome and code: ${text}`);
    const [, errorCode, rest] = /^\(([a-z_]+)\) (.*)$/.exec(outcome) ?? [];
    return { name, code, kind: "fails", errorCode, text: rest ?? outcome };
  });
}
