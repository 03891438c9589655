/**
 * One conversion of C's printf, which `string.format` is defined by: fengari's own rests on a package that knows another one.
 *
 * Fractions are rounded as C does: the exact binary value, to the even neighbour where it lies in the middle.
 */

interface Conversion {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | undefined;
  readonly letter: string;
}

/** What is printed of a value, in parts: zeros that fill the width stand between them. */
interface Printed {
  /** Sign and `0x`. */
  readonly head: string;
  readonly body: string;
  readonly mayFillWithZeros: boolean;
}

const FORM = /^([^%]*)%([-+ #0]*)(\d*)(?:\.(\d*))?([a-zA-Z])(.*)$/s;
const FLOAT_PRECISION = 6;
/** That toExponential gives. */
const PLACES_MAX = 100;
/** No double that is as near to a middle lies beside it. */
const PLACES_BEHIND = 30;

/** @param form text with one conversion in it, that Lua has found to be one */
export function printf(form: string, value: number | string): string {
  const [, before = "", flags = "", width = "", precision, letter = "", after = ""] = FORM.exec(form) ?? [];
  const conversion = {
    flags,
    width: Number(width),
    precision: precision === undefined ? undefined : Number(precision),
    letter,
  };
  return before + filled(printed(value, conversion), conversion) + after;
}

function printed(value: number | string, conversion: Conversion): Printed {
  if (typeof value === "string") {
    return { head: "", body: value.slice(0, conversion.precision), mayFillWithZeros: false };
  }
  return "diouxX".includes(conversion.letter) ? integer(value, conversion) : float(value, conversion);
}

function filled({ head, body, mayFillWithZeros }: Printed, { flags, width }: Conversion): string {
  const missing = Math.max(0, width - head.length - body.length);
  if (flags.includes("-")) return head + body + " ".repeat(missing);
  if (mayFillWithZeros && flags.includes("0")) return head + "0".repeat(missing) + body;
  return " ".repeat(missing) + head + body;
}

function integer(value: number, { flags, precision, letter }: Conversion): Printed {
  const isSigned = letter === "d" || letter === "i";
  const radix = letter === "o" ? 8 : letter === "u" || isSigned ? 10 : 16;
  // Numbers without a sign have 32 bits, as integers here.
  const digits = isSigned ? String(Math.abs(value)) : (value >>> 0).toString(radix);
  const whole = precision === 0 && value === 0 ? "" : digits.padStart(precision ?? 1, "0");
  const marked = flags.includes("#") && value !== 0;
  const prefix = marked && radix === 16 ? "0x" : marked && radix === 8 ? "0" : "";
  const [head, body] = [isSigned ? signOf(value, flags) : prefix, whole];
  const upper = letter === "X";
  return {
    head: upper ? head.toUpperCase() : head,
    body: upper ? body.toUpperCase() : body,
    mayFillWithZeros: precision === undefined,
  };
}

function float(value: number, { flags, precision = FLOAT_PRECISION, letter }: Conversion): Printed {
  const head = Number.isNaN(value) ? "" : signOf(value, flags);
  const body = magnitude(Math.abs(value), letter.toLowerCase(), precision, flags.includes("#"));
  return {
    head,
    body: letter === letter.toUpperCase() ? body.toUpperCase() : body,
    mayFillWithZeros: Number.isFinite(value),
  };
}

function signOf(value: number, flags: string): string {
  if (value < 0 || Object.is(value, -0)) return "-";
  return flags.includes("+") ? "+" : flags.includes(" ") ? " " : "";
}

function magnitude(value: number, letter: string, precision: number, keepsPoint: boolean): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return "inf";
  const text =
    letter === "g"
      ? shortest(value, Math.max(1, precision), keepsPoint)
      : letter === "e"
        ? exponential(value, precision)
        : fixed(value, precision);
  return keepsPoint && !text.includes(".") ? text.replace(/(?=e|$)/, ".") : text;
}

/** `%g`: whichever of the two is fit for the size, without zeros at its end. */
function shortest(value: number, digits: number, keepsZeros: boolean): string {
  const rounded = exponential(value, digits - 1);
  const exponent = Number(rounded.slice(rounded.indexOf("e") + 1));
  const text = exponent < -4 || exponent >= digits ? rounded : fixed(value, digits - 1 - exponent);
  const [significand = "", power] = text.split("e");
  const kept = keepsZeros || !significand.includes(".") ? significand : significand.replace(/\.?0+$/, "");
  return power === undefined ? kept : `${kept}e${power}`;
}

/** The exponent has two digits at least. */
function exponential(value: number, precision: number): string {
  const text = liesBetween(value, precision) ? toEven(value, precision) : value.toExponential(precision);
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

/** Whether two texts of so many places are as near: behind them a 5 and then nothing. */
function liesBetween(value: number, precision: number): boolean {
  const places = Math.min(PLACES_MAX, precision + PLACES_BEHIND);
  const behind = value
    .toExponential(places)
    .replace(/e.*|\./g, "")
    .slice(precision + 1);
  return /^50+$/.test(behind);
}

/** Of those two toExponential takes the upper one. */
function toEven(value: number, precision: number): string {
  const upper = value.toExponential(precision);
  const [digits = "", exponent = ""] = value.toExponential(precision + 1).split("e");
  const lower = digits.slice(0, -1).replace(/\.$/, "");
  return Number(lower.at(-1)) % 2 === 0 ? `${lower}e${exponent}` : upper;
}

function fixed(value: number, precision: number): string {
  // Only what has so few binary places can lie in the middle of two neighbours, of which toFixed takes the upper one.
  const mayLieBetween = !Number.isInteger(value) && Number.isInteger(value * 2 ** (precision + 1));
  return value < 1e21 && !mayLieBetween ? value.toFixed(precision) : exactly(value, precision);
}

function exactly(value: number, precision: number): string {
  let [mantissa, binaryPlaces] = [value, 0];
  for (; !Number.isInteger(mantissa); binaryPlaces++) mantissa *= 2;
  const [scaled, unit] = [BigInt(mantissa) * 10n ** BigInt(precision), 1n << BigInt(binaryPlaces)];
  const [below, twiceRest] = [scaled / unit, (scaled % unit) * 2n];
  const isUp = twiceRest > unit || (twiceRest === unit && below % 2n === 1n);
  const digits = String(isUp ? below + 1n : below).padStart(precision + 1, "0");
  return precision === 0 ? digits : `${digits.slice(0, -precision)}.${digits.slice(-precision)}`;
}
