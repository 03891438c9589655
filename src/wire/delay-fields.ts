/** What frames say of delayed commands, field by field. */
import { COMMAND_STATES } from "../delay/contract.js";
import type { PlainObject, PlainValue } from "../values.js";

type Fields = Readonly<Record<string, (value: PlainValue) => boolean>>;

export const COMMAND_FORM =
  'must be {"delayMs":N or "atMs":N or "everyMs":N or "cron":TEXT,"timeZone":TEXT,"id":TEXT,"expiresMs":N,"missed":"all"|"latest"|"skip",' +
  '"outcome":{"class":TEXT,"key":TEXT,"method":TEXT or "event":TEXT}}, all of them optional';
export const ASK_FORM =
  'must be {"kind":"list","filter":{...}}, {"kind":"get"|"cancel"|"retry","command":ID} or {"kind":"move","command":ID,"time":{...}}';

const isText = (value: PlainValue): boolean => typeof value === "string";
const isAmount = (value: PlainValue): boolean => typeof value === "number" && Number.isFinite(value) && value >= 0;

const TIME: Fields = { delayMs: isAmount, atMs: isAmount, everyMs: isAmount, cron: isText, timeZone: isText };
const COMMAND: Fields = {
  ...TIME,
  id: isText,
  expiresMs: isAmount,
  missed: (value) => value === "all" || value === "latest" || value === "skip",
  outcome: isOutcome,
};
const FILTER: Fields = {
  states: (value) => Array.isArray(value) && value.every((one) => COMMAND_STATES.some((state) => state === one)),
  app: isText,
  object: isText,
  after: isText,
  limit: (value) => Number.isInteger(value) && (value as number) >= 1,
};

export function isCommand(value: PlainValue): boolean {
  return hasFields(value, COMMAND);
}

export function isDelayAsk(value: PlainValue): boolean {
  if (!isTable(value)) return false;
  switch (value.kind) {
    case "list":
      return hasFields(value, { kind: isText, filter: (filter) => hasFields(filter, FILTER) });
    case "get":
    case "cancel":
    case "retry":
      return isText(value.command ?? null) && hasFields(value, { kind: isText, command: isText });
    case "move": {
      const isTime = (time: PlainValue): boolean => hasFields(time, TIME);
      const isWhole = isText(value.command ?? null) && value.time !== undefined;
      return isWhole && hasFields(value, { kind: isText, command: isText, time: isTime });
    }
    default:
      return false;
  }
}

function isOutcome(value: PlainValue): boolean {
  if (!isTable(value) || !isText(value.class ?? null) || !isText(value.key ?? null)) return false;
  const { method, event } = value;
  if ((method === undefined) === (event === undefined)) return false;
  return hasFields(value, { class: isText, key: isText, method: isText, event: isText });
}

function hasFields(value: PlainValue, fields: Fields): boolean {
  if (!isTable(value)) return false;
  return Object.entries(value).every(([name, one]) => Object.hasOwn(fields, name) && fields[name]?.(one) === true);
}

function isTable(value: PlainValue): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}
