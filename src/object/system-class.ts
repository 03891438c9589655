/**
 * A class of Moonport's own, in TypeScript: an object like any other, with its mailbox, its database, its gate and its place
 * in the fleet, whose methods are code of the kernel. Delay shards and directories are such objects.
 *
 * A method runs in one step, inside its call's transaction; what it throws rolls the call back. It reaches the object's state
 * by its host, and nothing else.
 */
import { createHash } from "node:crypto";
import { asMoonportError, MoonportError } from "../errors.js";
import type { CallHost, LuaClass, LuaInvocation, LuaStep, MethodKind } from "../lua/contract.js";
import type { PlainValue } from "../values.js";

/** What a system method may do to its object: what class code may, and change the tables as it goes. */
export interface SystemHost extends CallHost {
  /** As a migration would, in the call's transaction. */
  changeSchema(sql: string): void;
}

export interface SystemMethod {
  readonly kind: MethodKind;
  run(args: readonly PlainValue[], host: SystemHost): PlainValue;
}

export interface SystemClassOptions {
  readonly name: string;
  readonly migrations: readonly string[];
  readonly methods: Readonly<Record<string, SystemMethod>>;
}

export function systemClass({ name, migrations, methods }: SystemClassOptions): LuaClass {
  return {
    name,
    file: `moonport ${name}`,
    // Its code is the release's: only its migrations can differ between two that an object meets.
    version: createHash("sha256").update(JSON.stringify(migrations)).digest("hex"),
    migrations,
    directory: undefined,
    methods: new Map(Object.entries(methods).map(([method, { kind }]) => [method, kind])),
    hooks: { on_create: false, on_wake: false },
    start: (entry, args, host) => {
      const method = entry.kind === "method" ? methods[entry.name] : undefined;
      return new SystemInvocation(() => {
        // Objects of this app get no other host.
        if (method !== undefined) return method.run(args, host as SystemHost);
        throw MoonportError.of("method_not_found", `${name} has no such method`);
      });
    },
  };
}

class SystemInvocation implements LuaInvocation {
  readonly #run: () => PlainValue;

  constructor(run: () => PlainValue) {
    this.#run = run;
  }

  resume(): LuaStep {
    try {
      return { kind: "returned", value: this.#run() };
    } catch (thrown) {
      return { kind: "failed", error: asMoonportError(thrown) };
    }
  }

  abandon(): void {}
}
