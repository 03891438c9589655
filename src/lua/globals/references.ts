/**
 * References to objects: what `Auction("lot-42")` makes, for `send` and, later, for calls that wait.
 */

import { MoonportError } from "../../errors.js";
import { checkKey } from "../../identity.js";
import type { LuaFunction, LuaState, Table, TValue } from "../fengari/types.js";
import { argument, isString, latin1, type Runtime } from "../runtime.js";
import { type HostThing, textOf } from "../values.js";

export class Reference implements HostThing {
  readonly kind = "reference";
  readonly refusal = "is a reference to another object; send its key instead";

  constructor(
    readonly className: string,
    readonly key: string,
  ) {}
}

export class References {
  readonly #classes = new Map<string, TValue>();
  readonly #metatable: Table;

  constructor(readonly runtime: Runtime) {
    this.#metatable = runtime.functions({ __index: (L) => this.#refuseCall(L) });
    runtime.addField(this.#metatable, "__metatable", runtime.boolean(false));
    runtime.addField(this.#metatable, "__name", runtime.string("object reference"));
  }

  /** The global that stands for a class in every class's code. */
  classNamed(name: string): TValue {
    const known = this.#classes.get(name);
    if (known) return known;
    const { runtime } = this;
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
    return (L) => {
      const key = argument(L, 2);
      const text = isString(key) ? textOf(key.value) : null;
      if (text === null) throw this.runtime.fail(L, `${className}(key) takes the key of an object as text`);
      checkKey(text);
      return this.runtime.push(L, this.#reference(new Reference(className, text)));
    };
  }

  #reference(reference: Reference): TValue {
    const { runtime } = this;
    const table = runtime.tableOf({
      class: runtime.string(reference.className),
      key: runtime.string(reference.key),
    });
    table.host = reference;
    table.metatable = this.#metatable;
    return runtime.tableValue(runtime.freeze(table, "a reference cannot be changed"));
  }

  #refuseCall(L: LuaState): never {
    const reference = (argument(L, 1)?.value as Table | undefined)?.host;
    const key = argument(L, 2);
    const method = isString(key) ? latin1(key.value.getstr()) : "?";
    if (!(reference instanceof Reference)) throw this.runtime.fail(L, "not a reference");
    const { className } = reference;
    throw MoonportError.of(
      "method_error",
      `${className}("${reference.key}"):${method}: an object cannot call another and wait`,
      {
        hint: `send(${className}("${reference.key}")):${method}(...) has it done once this call is committed`,
      },
    );
  }
}
