/** Who may come in by the doors of an embedded node: as a file of tokens says, or as the program's own authenticator does. */
import path from "node:path";
import type { Authenticator } from "../auth/contract.js";
import { StaticTokens } from "../auth/static-tokens.js";
import { MoonportError } from "../errors.js";
import { RealFolder } from "../world/real-folder.js";
import type { World } from "../world/world.js";

const KEY_BYTES = 32;

/** @throws MoonportError `bad_option` for a file that is not there or is wrong, `storage_*` */
export function authenticatorOf(auth: string | Authenticator, world: Pick<World, "random">): Authenticator {
  if (typeof auth !== "string") return auth;
  const file = path.resolve(auth);
  const bytes = new RealFolder(path.dirname(file)).readFile(path.basename(file));
  if (bytes === undefined) throw MoonportError.of("bad_option", `listen: auth: there is no file ${file}`);
  return new StaticTokens(new TextDecoder().decode(bytes), auth, world.random.bytes(KEY_BYTES));
}
