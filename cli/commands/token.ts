/** `moonport token new` */
import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { isTokenId, TOKEN_ID_GRAMMAR, tokenDigest } from "../../src/auth/token-file.js";
import { MoonportError } from "../../src/errors.js";
import { contextOf } from "../context.js";

interface TokenFlags {
  readonly owner: string;
}

/** What a scanner for leaked secrets can look for. */
const PREFIX = "mp_";
const RANDOM_BYTES = 32;

export function addToken(program: Command): void {
  const token = program.command("token").description("tokens for start --auth");
  token
    .command("new")
    .description("make a token, and its line for the file of tokens, which does not hold the token itself")
    .option("--owner <name>", "whose it is: the line's id, and caller.id in Lua", "somebody")
    .addHelpText("after", "\nExample:\n  moonport token new --owner ada")
    .action((flags: TokenFlags, command: Command) => {
      const { output } = contextOf(command);
      if (!isTokenId(flags.owner)) throw MoonportError.of("bad_option", `--owner takes ${TOKEN_ID_GRAMMAR}`);
      const text = PREFIX + randomBytes(RANDOM_BYTES).toString("base64url");
      const sha256 = tokenDigest(text).toString("hex");
      const entry = { id: flags.owner, sha256, allow: [{ rights: ["read", "call", "subscribe"] }] };
      output.result(`token  ${text}\nline   ${JSON.stringify(entry)}`, { token: text, entry });
      output.talk("the token is shown this once; the line goes into the file that start --auth reads");
    });
}
