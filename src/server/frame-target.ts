/** The object that a frame of a WebSocket speaks of. */
import { DEFAULT_APP, identityOf, type ObjectIdentity } from "../identity.js";
import type { FrameTarget } from "../wire/frames.js";

/** @throws MoonportError `bad_name`, `bad_key` */
export function objectOf({ app = DEFAULT_APP, class: className, key }: FrameTarget): ObjectIdentity {
  return identityOf(app, className, key);
}
