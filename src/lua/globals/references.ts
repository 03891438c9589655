/**
 * References to objects: what `Auction("lot-42")` makes, for `send` and for calls that wait.
 *
 * `Auction("lot-42"):bid("ada", 25)` puts the code aside until the object has answered. What the object's method throws is
 * raised here, with its code, message and details.
 */
import { checkKey, checkMethodName } from "../../identity.js";
import type { LuaFunction, LuaState, Table, TValue } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, isString, isTable, latin1 } from "../runtime.js";
import { type HostThing, textOf } from "../values.js";
import { waitFor } from "../waits.js";
import { Arguments } from "./read-arguments.js";

export class Reference implements HostThing {
  readonly kind = "reference";
  readonly refusal = "is a reference to another object; send its key instead";

  constructor(
    readonly className: string,
    readonly key: string,
  ) {}

  toString(): string {
    return `${this.className}("${this.key}")`;
  }
}

/** Code may make up names as it goes. */
const METHODS_KEPT_MAX = 1_000;

export class References {
  readonly #classes = new Map<string, TValue>();
  readonly #methods = new Map<string, TValue>();
  readonly #metatable: Table;
  readonly #arguments: Arguments;

  constructor(readonly machine: Machine) {
    const { runtime } = machine;
    this.#arguments = new Arguments(machine);
    this.#metatable = runtime.functions({ __index: (L) => this.#method(L) });
    runtime.addField(this.#metatable, "__metatable", runtime.boolean(false));
    runtime.addField(this.#metatable, "__name", runtime.string("object reference"));
  }

  /** The global that stands for a class in every class's code. */
  classNamed(name: string): TValue {
    const known = this.#classes.get(name);
    if (known) return known;
    const { runtime } = this.machine;
    const table = runtime.table();
    table.host = { kind: "class", refusal: "is a class" } satisfies HostThing;
    table.metatable = runtime.functions({
      __call: this.callFor(name),
      __index: (L) =>
        runtime.fail(L, `${name} is another class: ${name}("key") makes a reference to one of its objects`),
    });
    runtime.addField(table.metatable, "__metatable", runtime.boolean(false));
    runtime.freeze(table, `${name} is another class and cannot be changed`);
    const value = runtime.tableValue(table);
    this.#classes.set(name, value);
    return value;
  }

  /** `__call` of a class: its key makes a reference. */
  callFor(className: string): LuaFunction {
    const { runtime } = this.machine;
    return (L) => {
      const key = argument(L, 2);
      const text = isString(key) ? textOf(key.value) : null;
      if (text === null) throw runtime.fail(L, `${className}(key) takes the key of an object as text`);
      checkKey(text);
      return runtime.push(L, this.#reference(new Reference(className, text)));
    };
  }

  #reference(reference: Reference): TValue {
    const { runtime } = this.machine;
    const table = runtime.tableOf({
      class: runtime.string(reference.className),
      key: runtime.string(reference.key),
    });
    table.host = reference;
    table.metatable = this.#metatable;
    return runtime.tableValue(runtime.freeze(table, "a reference cannot be changed"));
  }

  /** `reference.method`: the function that calls it. */
  #method(L: LuaState): number {
    const { runtime } = this.machine;
    const key = argument(L, 2);
    if (!isString(key)) throw runtime.fail(L, "a reference has methods only: their names are text");
    const name = latin1(key.value.getstr());
    let method = this.#methods.get(name);
    if (method === undefined) {
      if (this.#methods.size >= METHODS_KEPT_MAX) this.#methods.clear();
      method = runtime.function((inner) => this.#call(inner, name));
      this.#methods.set(name, method);
    }
    return runtime.push(L, runtime.value(method.type, method.value));
  }

  #call(L: LuaState, method: string): number {
    const { runtime } = this.machine;
    const target = argument(L, 1);
    const reference = isTable(target) ? target.value.host : null;
    if (!(reference instanceof Reference)) {
      throw runtime.fail(L, `write a colon before the method: Class("key"):${method}(...)`);
    }
    const { className, key } = reference;
    if (method.startsWith("_")) throw runtime.fail(L, `'${method}' is private to ${className}`);
    checkMethodName(method);
    const args = this.#arguments.rest(L, 2);
    return waitFor(this.machine, L, `${reference}:${method}`, { kind: "call", className, key, method, args });
  }
}
