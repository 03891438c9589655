/** The object that a frame of a WebSocket speaks of. */
import { DEFAULT_APP, identityOf, type ObjectIdentity } from "../identity.js";
import { RecentMap } from "../recent-map.js";
import type { FrameTarget } from "../wire/frames.js";

/**
 * Identities of the last frames, by key: who speaks of an object mostly speaks of it again. To check three names and join them
 * costs as much as to read the frame, and every map that is asked for a joined name hashes it anew.
 */
const lately = new RecentMap<string, ObjectIdentity>(4_096);

/** @throws MoonportError `bad_name`, `bad_key` */
export function objectOf({ app = DEFAULT_APP, class: className, key }: FrameTarget): ObjectIdentity {
  // Peeked at: to keep them in order of use would cost more than to make some of them anew.
  const known = lately.peek(key);
  if (known !== undefined && known.className === className && known.app === app) return known;
  const object = identityOf(app, className, key);
  lately.set(key, object);
  return object;
}
