/** `state.sql` and `state.store`: the object's own database. */
import { MoonportError } from "../../errors.js";
import type { SqlParameters, SqlRows, SqlValue } from "../../values.js";
import type { RowCursor } from "../contract.js";
import { meter } from "../fengari/meter.js";
import type { LuaFunction, LuaState, Table, TString, TValue } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, argumentCount, isNil, isString, isTable } from "../runtime.js";
import { ARRAY_MARK, textOf } from "../values.js";
import { Arguments } from "./read-arguments.js";

export function stateTable(machine: Machine): Table {
  const { runtime } = machine;
  const freeze = (table: Table, name: string): TValue =>
    runtime.tableValue(runtime.freeze(table, `${name} cannot be changed: use state.store.set(key, value)`));
  return runtime.tableOf({
    sql: freeze(runtime.functions(new SqlFunctions(machine).functions()), "state.sql"),
    store: freeze(runtime.functions(storeFunctions(machine)), "state.store"),
  });
}

class SqlFunctions {
  readonly #arguments: Arguments;

  constructor(readonly machine: Machine) {
    this.#arguments = new Arguments(machine);
  }

  functions(): Record<string, LuaFunction> {
    const { runtime } = this.machine;
    return {
      exec: (L) => {
        const { changes, lastId } = runtime.host(L, "state.sql").sqlExec(this.#sql(L, "exec"), this.#parameters(L));
        runtime.push(L, runtime.number(changes));
        runtime.push(L, typeof lastId === "string" ? runtime.string(lastId) : runtime.number(lastId));
        return 2;
      },
      one: (L) => {
        const { columns, rows } = runtime.host(L, "state.sql").sqlOne(this.#sql(L, "one"), this.#parameters(L));
        const row = rows[0];
        return runtime.push(L, row ? this.machine.values.rowToLua(this.#keys(columns), row) : runtime.nil());
      },
      all: (L) =>
        runtime.push(L, this.#rows(runtime.host(L, "state.sql").sqlAll(this.#sql(L, "all"), this.#parameters(L)))),
      each: (L) => this.#each(L),
    };
  }

  #sql(L: LuaState, name: string): string {
    return this.#arguments.text(L, 1, `state.sql.${name}(sql, ...)`);
  }

  #keys(columns: readonly string[]): TString[] {
    return columns.map((column) => this.machine.runtime.key(column));
  }

  #rows({ columns, rows }: SqlRows): TValue {
    const { runtime, values } = this.machine;
    const keys = this.#keys(columns);
    const table = runtime.table();
    table.host = ARRAY_MARK;
    for (let index = 0; index < rows.length; index++) {
      runtime.addElement(table, index + 1, values.rowToLua(keys, rows[index] as readonly SqlValue[]));
    }
    return runtime.tableValue(table);
  }

  /** A row at a time. The row before is given back to the memory budget: a loop over many rows holds one. */
  #each(L: LuaState): number {
    const { runtime, values } = this.machine;
    const host = runtime.host(L, "state.sql");
    const call = runtime.running(L, "state.sql");
    const cursor: RowCursor = host.sqlEach(this.#sql(L, "each"), this.#parameters(L));
    call.cursors.add(cursor);
    const keys = this.#keys(cursor.columns);
    let bytes = 0;
    const next: LuaFunction = (inner) => {
      if (!call.cursors.has(cursor)) return runtime.push(inner, runtime.nil());
      const row = cursor.next();
      if (row === undefined) {
        call.cursors.delete(cursor);
        cursor.close();
        return runtime.push(inner, runtime.nil());
      }
      meter.bytes += bytes;
      const before = meter.bytes;
      const value = values.rowToLua(keys, row);
      bytes = before - meter.bytes;
      return runtime.push(inner, value);
    };
    return runtime.push(L, runtime.function(next));
  }

  /** By position, or one table: a list by position, a map by name. */
  #parameters(L: LuaState): SqlParameters {
    const { values } = this.machine;
    const count = argumentCount(L);
    const first = argument(L, 2);
    if (count === 2 && isTable(first)) return this.#tableParameters(first.value);
    const parameters: SqlValue[] = [];
    for (let index = 2; index <= count; index++) {
      parameters.push(values.sqlFromLua(argument(L, index), `parameter ${index - 1}`));
    }
    return parameters;
  }

  #tableParameters(table: Table): SqlParameters {
    const { values } = this.machine;
    const { size } = table.strong;
    if (size === 0 || table.strong.has(1)) {
      return Array.from({ length: size }, (_, index) => {
        const value = table.strong.get(index + 1)?.value;
        if (value === undefined) throw MoonportError.of("bad_value", "the list of parameters has holes or named keys");
        return values.sqlFromLua(value, `parameter ${index + 1}`);
      });
    }
    const named = [...table.strong.values()].map(({ key, value }): [string, SqlValue] => {
      const name = isString(key) ? textOf(key.value) : null;
      if (name === null) throw MoonportError.of("bad_value", "parameters are a list, or a map from names");
      return [name, values.sqlFromLua(value, `parameter ${name}`)];
    });
    return Object.fromEntries(named);
  }
}

function storeFunctions(machine: Machine): Record<string, LuaFunction> {
  const { runtime, values } = machine;
  const args = new Arguments(machine);
  const host = (L: LuaState) => runtime.host(L, "state.store");
  return {
    get: (L) => runtime.push(L, values.toLua(host(L).storeGet(args.text(L, 1, "state.store.get(key)")))),
    set: (L) => {
      const key = args.text(L, 1, "state.store.set(key, value)");
      const value = argument(L, 2);
      // As with a table's field: what is nil is not there.
      if (isNil(value)) host(L).storeDelete(key);
      else host(L).storeSet(key, values.toPlain(value, "value"));
      return 0;
    },
    delete: (L) => runtime.push(L, runtime.boolean(host(L).storeDelete(args.text(L, 1, "state.store.delete(key)")))),
    list: (L) => {
      const prefix = argumentCount(L) === 0 ? "" : args.text(L, 1, "state.store.list(prefix)");
      const table = runtime.table();
      // pairs walks in order of insertion, so this keeps the order of keys.
      for (const [key, value] of host(L).storeList(prefix)) runtime.addField(table, key, values.fieldToLua(value));
      return runtime.push(L, runtime.tableValue(table));
    },
    set_volatile: (L) => {
      const key = args.text(L, 1, "state.store.set_volatile(key, value)");
      host(L).storeSetVolatile(key, values.toPlain(argument(L, 2), "value"));
      return 0;
    },
    append_volatile: (L) => {
      const usage = "state.store.append_volatile(key, text)";
      host(L).storeAppendVolatile(args.text(L, 1, usage), args.text(L, 2, usage));
      return 0;
    },
  };
}
