/**
 * The plain values that travel: between callers and Lua, into SQLite, the store, events and messages.
 *
 * They are what JSON has, plus bytes. Numbers are finite doubles. Objects are made and read with own properties only, so a
 * key such as `__proto__` is a key like any other.
 */
export type PlainValue = null | boolean | number | string | Uint8Array | PlainValue[] | PlainObject;
export interface PlainObject {
  [key: string]: PlainValue;
}

/** Sets an own property whatever its name: plain assignment to `__proto__` would change the prototype instead. */
export function setOwn(target: PlainObject, key: string, value: PlainValue): void {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

export type SqlValue = null | number | string | Uint8Array;
/** By position, or by name without the prefix sign. */
export type SqlParameters = readonly SqlValue[] | Readonly<Record<string, SqlValue>>;

export interface SqlRows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly SqlValue[])[];
}
