/**
 * Where a page ended: the place of its last row in the order, opaque to whoever carries it. It names a place and not a number of
 * rows, so what is written between two pages moves nothing: a row that stands behind the place comes, one before it does not.
 *
 * What is in it is only ever compared with, as a bound value: one that somebody made up can do no harm.
 */
import { MoonportError } from "../errors.js";
import { SETTINGS } from "../settings/settings.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainValue, SqlValue } from "../values.js";
import { type OrderTerm, orderText } from "./order.js";

const FORMAT = 1;
/** A row may be ordered by all that it holds. In base64, with what else stands in a cursor. */
const CURSOR_LENGTH_MAX = Math.ceil(((SETTINGS.DIRECTORY_ROW_BYTES_MAX.max + 4_096) * 4) / 3);

export function cursorAt(className: string, order: readonly OrderTerm[], place: readonly SqlValue[]): string {
  const bytes = encodeValue([FORMAT, className, orderText(order), [...place]], Number.POSITIVE_INFINITY, "a cursor");
  return Buffer.from(bytes).toString("base64url");
}

/** @throws MoonportError `bad_cursor` */
export function placeOf(cursor: string, className: string, order: readonly OrderTerm[]): SqlValue[] {
  const [format, ofClass, ofOrder, place] = partsOf(cursor);
  if (format !== FORMAT || !Array.isArray(place)) throw badCursor("it is not one that a page ended with");
  if (ofClass !== className) throw badCursor(`it belongs to a page of ${String(ofClass)}`);
  if (ofOrder !== orderText(order)) {
    throw badCursor("it belongs to a page in another order", `go on with the same order: ${String(ofOrder)}`);
  }
  if (place.length !== order.length || !place.every(isSqlValue))
    throw badCursor("it is not one that a page ended with");
  return place;
}

function partsOf(cursor: string): readonly PlainValue[] {
  if (cursor.length > CURSOR_LENGTH_MAX || !/^[A-Za-z0-9_-]+$/.test(cursor)) throw badCursor("it is no cursor");
  try {
    const value = decodeValue(Buffer.from(cursor, "base64url"));
    if (Array.isArray(value)) return value;
  } catch (cause) {
    throw badCursor("it is no cursor", undefined, cause);
  }
  throw badCursor("it is no cursor");
}

function isSqlValue(value: PlainValue): value is null | number | string {
  return value === null || typeof value === "number" || typeof value === "string";
}

function badCursor(what: string, hint = "pass `after` as the page before gave it", cause?: unknown): MoonportError {
  return MoonportError.of("bad_cursor", `after: ${what}`, { hint, cause });
}
