/**
 * Objects as TypeScript sees them: `object<AuctionMethods>("Auction", "lot-42").bid("ada", 25)`.
 *
 * A handle has names of its own (`call`, `subscribe`, ...); every other name is a method of the class. A class's method that
 * is called like one of the handle's own is reached by `call`.
 */

/** A class's methods with their arguments and results, each to be called from afar. */
export type RemoteMethods<Methods> = {
  readonly [Name in keyof Methods as Methods[Name] extends (...args: never[]) => unknown
    ? Name
    : never]: Methods[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

/** Promises and JSON.stringify ask for these by name, of whatever they are given. */
const ASKED_BY_THE_LANGUAGE = new Set(["then", "toJSON"]);

/** The handle, answering to every name that is not its own with a call of that method. */
export function withMethods<Handle extends object, Methods>(
  handle: Handle,
  call: (method: string, args: readonly unknown[]) => Promise<unknown>,
): Handle & RemoteMethods<Methods> {
  const typed = new Proxy(handle, {
    get(target, name) {
      if (typeof name === "symbol" || Reflect.has(target, name)) {
        const own: unknown = Reflect.get(target, name, target);
        return typeof own === "function" ? own.bind(target) : own;
      }
      if (ASKED_BY_THE_LANGUAGE.has(name)) return undefined;
      return (...args: readonly unknown[]) => call(name, args);
    },
  });
  // What the proxy answers with is known to the type alone.
  return typed as Handle & RemoteMethods<Methods>;
}
