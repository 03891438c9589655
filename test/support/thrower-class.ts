/** A class that throws whatever code it is told to, and a log that counts how often it ran: what it writes is rolled back. */
import { ERROR_CODES } from "../../src/errors.js";
import type { Logger } from "../../src/world/logger.js";

export const THROWER = `
local Thrower = class "Thrower"
function Thrower:throw(code)
  log.info("threw " .. code)
  error { code = code, message = "the class's own " .. code, node = "n0" }
end
function Thrower.read:look(code)
  log.info("threw " .. code)
  error { code = code, message = "the class's own " .. code, node = "n0" }
end
function Thrower:throw_later(code) schedule.after(1, { name = code }):throw(code) end
function Thrower:send_throw(code, key) send(Thrower(key), { id = code }):throw(code) end
function Thrower.read:timers() return schedule.list() end
return Thrower`;

/** Everything that Moonport says itself, which a class may say as well. */
export const CODES = Object.keys(ERROR_CODES);

export const eachRan = (runs: number): [code: string, runs: number][] => CODES.map((code) => [code, runs]);

export class ThrowLog implements Logger {
  #threw = new Map<string, number>();

  /** By code, since it was asked last. */
  threw(): [code: string, runs: number][] {
    const threw = CODES.map((code): [string, number] => [code, this.#threw.get(code) ?? 0]);
    this.#threw.clear();
    return threw;
  }

  info(_fields: object, message: string): void {
    const [, code] = /^threw (.*)/.exec(message) ?? [];
    if (code !== undefined) this.#threw.set(code, 1 + (this.#threw.get(code) ?? 0));
  }

  debug(): void {}
  warn(): void {}
  error(): void {}

  child(): Logger {
    return this;
  }
}
