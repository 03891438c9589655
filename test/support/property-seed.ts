/**
 * Properties are tried with other values at each run on a developer's machine, and always with the same ones where changes are
 * checked: a change is refused for what it breaks, and not for a case that nobody had met before. PROPERTY_SEED takes one.
 */
import fc from "fast-check";

const CHECKED_SEED = 20_261_130;

const { PROPERTY_SEED, CI } = process.env;
if (PROPERTY_SEED !== undefined) fc.configureGlobal({ seed: Number(PROPERTY_SEED) });
else if (CI !== undefined) fc.configureGlobal({ seed: CHECKED_SEED });
