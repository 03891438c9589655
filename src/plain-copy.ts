/**
 * Whatever a JavaScript program hands over, as a plain value of our own: checked, and copied, so that nothing the program
 * does to it afterwards reaches a call that still waits.
 *
 * As JSON.stringify does, it leaves out fields that are `undefined` and makes `null` of such elements. Everything else that
 * is not plain is refused with the path to it, rather than sent as `{}`.
 */
import { MoonportError } from "./errors.js";
import { type PlainObject, type PlainValue, setOwn } from "./values.js";

/**
 * @param where names the value in messages: `argument 2`
 * @param depthMax arrays and objects that may stand inside each other
 * @throws MoonportError `bad_value`, `too_deep`
 */
export function plainCopy(value: unknown, where: string, depthMax: number): PlainValue {
  switch (typeof value) {
    case "undefined":
      return null;
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw refused(where, `${value}`);
    case "string":
      if (value.isWellFormed()) return value;
      throw refused(where, "text that is not well-formed Unicode");
    case "object":
      return value === null ? null : copyObject(value, where, depthMax);
    default:
      throw refused(where, `a ${typeof value}`);
  }
}

function copyObject(value: object, where: string, depthLeft: number): PlainValue {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  // A cycle ends here too.
  if (depthLeft <= 0) throw MoonportError.of("too_deep", `${where}: nested deeper than the limit, or in a circle`);
  if (Array.isArray(value)) {
    return Array.from(value, (element, index) => plainCopy(element, `${where}[${index}]`, depthLeft - 1));
  }
  if (!isPlainObject(value)) throw refused(where, `a ${value.constructor?.name ?? "special object"}`);
  const copy: PlainObject = {};
  for (const [name, field] of Object.entries(value)) {
    if (!name.isWellFormed()) throw refused(where, "a name that is not well-formed Unicode");
    if (field !== undefined) setOwn(copy, name, plainCopy(field, `${where}.${name}`, depthLeft - 1));
  }
  return copy;
}

/** Made by a literal or without a prototype, in this realm or another. */
function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function refused(where: string, what: string): MoonportError {
  return MoonportError.of("bad_value", `${where}: ${what} cannot travel`, {
    hint: "values are null, booleans, finite numbers, strings, Uint8Array, and arrays and plain objects of these",
  });
}
