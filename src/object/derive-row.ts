/**
 * The object's directory row, derived in the transaction it describes, read-only and within DIRECTORY_BUDGET_MS.
 *
 * A derivation that throws, overruns or returns what the declaration does not allow keeps the last good row and sets the
 * failure mark. It never fails the write (O3).
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { ColumnType, DirectoryDeclaration, LuaClass } from "../lua/contract.js";
import type { PlainObject, PlainValue } from "../values.js";
import { ROW_ENTRY } from "../world/watchdog/running-record.js";
import { CallHost } from "./call-host.js";
import { shapeOf } from "./directory-shape.js";
import type { ObjectContext } from "./object-context.js";
import type { OpenObject } from "./open-object.js";

/** `failed_first`: the row was good before. */
export type Derivation = "kept" | "failed_first" | "failed_again";

export function deriveRow(context: ObjectContext, open: OpenObject, lua: LuaClass, seq: number): Derivation {
  const { directoryRow } = open.tables;
  const before = directoryRow.get();
  try {
    // A class that derives a row has declared its directory.
    const declaration = lua.directory as DirectoryDeclaration;
    directoryRow.save(derived(context, open, lua, declaration), seq, shapeOf(declaration));
    return "kept";
  } catch (thrown) {
    const error = asMoonportError(thrown);
    if (open.database.doomed) throw error;
    directoryRow.fail(error.message, seq, context.world.clock.wallMs());
    context.counters.directory.derivationsFailed++;
    context.log.warn(
      { object: open.object.id, error: error.message },
      "directory row not derived; the last good one stays",
    );
    return before.failure === undefined ? "failed_first" : "failed_again";
  }
}

function derived(
  context: ObjectContext,
  open: OpenObject,
  lua: LuaClass,
  declaration: DirectoryDeclaration,
): PlainObject {
  const refusal = context.quarantine.refusal(open.object, ROW_ENTRY);
  if (refusal !== undefined) throw refusal;
  const host = new CallHost(context, open, { kind: "system" }, "read");
  const invocation = lua.start({ kind: "row" }, [], host);
  const step = invocation.resume();
  host.close();
  if (step.kind === "failed") throw step.error;
  if (step.kind !== "returned") {
    invocation.abandon();
    throw MoonportError.of("budget_exceeded", "the derivation gave up its slice");
  }
  return checkedRow(step.value, declaration);
}

/** @throws MoonportError `bad_value` naming the column */
export function checkedRow(value: PlainValue, declaration: DirectoryDeclaration): PlainObject {
  if (value === null || typeof value !== "object" || Array.isArray(value) || value instanceof Uint8Array) {
    throw MoonportError.of("bad_value", "directory.row must return a table of columns");
  }
  for (const [column, cell] of Object.entries(value)) {
    const type = Object.hasOwn(declaration.columns, column) ? declaration.columns[column] : undefined;
    if (type === undefined)
      throw MoonportError.of("bad_value", `directory.row returned the undeclared column "${column}"`);
    if (cell !== null && !fits(cell, type)) {
      throw MoonportError.of(
        "bad_value",
        `column "${column}" is declared ${type}, directory.row returned ${typeof cell}`,
      );
    }
  }
  return value;
}

function fits(cell: PlainValue, type: ColumnType): boolean {
  switch (type) {
    case "text":
      return typeof cell === "string";
    case "integer":
      return Number.isSafeInteger(cell);
    case "real":
      return typeof cell === "number";
    case "boolean":
      return typeof cell === "boolean";
  }
}
