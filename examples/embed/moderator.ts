/** Code of the program that Lua calls as it calls objects: the seam to libraries, other services, whatever Lua has no way to. */
import { MoonportError, type PlainValue } from "moonport";

export class Moderator {
  readonly #unwelcome: readonly RegExp[];

  constructor(words: readonly string[]) {
    this.#unwelcome = words.map((word) => new RegExp(`\\b${word}\\b`, "i"));
  }

  /** `Moderator("guestbook"):check(text)` in Lua. Here a service of yours might be asked: it may take its time. */
  async check([text]: readonly PlainValue[]): Promise<boolean> {
    const found = this.#unwelcome.some((word) => typeof text === "string" && word.test(text));
    if (found) throw MoonportError.byClass("unwelcome", "say it in other words");
    return true;
  }
}
