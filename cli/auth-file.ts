/** The file of `--auth`: read when a node starts, and again when `start` gets SIGHUP. */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { StaticTokens } from "../src/auth/static-tokens.js";
import { asMoonportError, MoonportError } from "../src/errors.js";
import type { Output } from "./output.js";

/** Others of this machine may read it, or write it. */
const FOR_OTHERS = 0o077;

export class AuthFile {
  readonly tokens: StaticTokens;
  readonly #file: string;

  /** @throws MoonportError `bad_option` */
  constructor(file: string, output: Output) {
    this.#file = file;
    this.tokens = new StaticTokens(read(file), file, randomBytes(32));
    if ((fs.statSync(file).mode & FOR_OTHERS) !== 0) {
      output.talk(`${file} can be read by others of this machine: chmod 600 it, or keep only sha256 in it`);
    }
  }

  /** From now on every SIGHUP reads the file again; a file that is wrong leaves the tokens as they were. */
  readAgainOnHangup(output: Output): void {
    process.on("SIGHUP", () => {
      try {
        this.tokens.replace(read(this.#file), this.#file);
        output.talk(`SIGHUP: the tokens of ${this.#file} hold from now on`);
      } catch (error) {
        output.talk(`SIGHUP: the tokens stay as they were: ${asMoonportError(error).message}`);
      }
    });
  }
}

function read(file: string): string {
  try {
    return fs.readFileSync(file, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw MoonportError.of("bad_option", `--auth ${file} cannot be read (${code})`, { cause });
  }
}
