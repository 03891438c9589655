/** What a `sqlite:` URL says: which file, and whether several processes are at work on it. */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";

export interface SqliteLocation {
  /** Absolute, or relative to the working directory. */
  readonly path: string;
  /** Its writers then take turns. Without it several may use the file too, but a busy one may keep the others waiting. */
  readonly isShared: boolean;
}

const SCHEME = "sqlite:";
const OPTIONS = ["shared"] as const;
/** What stands behind the last question mark; a slash behind it makes it part of a folder's name. */
const QUERY = /\?([^?/]*=[^?/]*)$/;

/** Undefined for another kind of bucket. @throws MoonportError `bad_option` for an option that there is not */
export function sqliteLocation(url: string): SqliteLocation | undefined {
  if (!url.startsWith(SCHEME)) return undefined;
  const rest = url.slice(SCHEME.length);
  const query = QUERY.exec(rest);
  if (query === null) return { path: rest, isShared: false };
  let isShared = false;
  for (const pair of (query[1] ?? "").split("&")) {
    const [name = "", value = ""] = pair.split("=", 2);
    if (name !== "shared") throw unknownOption(name);
    if (value !== "1" && value !== "0") {
      throw MoonportError.of("bad_option", `shared is 1 or 0, not "${value}"`, { hint: "sqlite:PATH?shared=1" });
    }
    isShared = value === "1";
  }
  return { path: rest.slice(0, query.index), isShared };
}

export function sqliteUrl({ path, isShared }: SqliteLocation): string {
  return `${SCHEME}${path}${isShared ? "?shared=1" : ""}`;
}

function unknownOption(name: string): MoonportError {
  const guess = nearest(name, OPTIONS);
  const hint = guess === undefined ? "sqlite:PATH takes shared=1 and nothing else" : `did you mean ${guess}?`;
  return MoonportError.of("bad_option", `${SCHEME} takes no option called "${name}"`, { hint });
}
