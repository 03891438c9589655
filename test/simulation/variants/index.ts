/** Broken systems, each of which the simulation has to find out: one that it does not find would be one that we could have. */
import { CLAIMS } from "./claims.js";
import { JOURNALS } from "./journals.js";
import { OWNERS } from "./owners.js";
import { SESSIONS } from "./sessions.js";
import { SHIPPING } from "./shipping.js";
import type { Variant } from "./variant.js";
import { WATCHING } from "./watching.js";

export const VARIANTS: Record<string, Variant> = {
  ...JOURNALS,
  ...OWNERS,
  ...CLAIMS,
  ...SESSIONS,
  ...SHIPPING,
  ...WATCHING,
};
