/**
 * How many object files may be open: OBJECT_FILES_OPEN_MAX, or fewer where the process may not have that many descriptors.
 * Running out of them would fail calls at random.
 */
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";

/** An open object has its file, its WAL, and the WAL once more for the capture. */
const DESCRIPTORS_PER_FILE = 3;
/** A copy has its file and its WAL. */
const DESCRIPTORS_PER_COPY = 2;
/** For the process itself, the bucket and connections. */
const DESCRIPTORS_KEPT = 256;

/**
 * @param copiesMax of other nodes' objects, that may be open beside them
 * @throws MoonportError `bad_setting` where hardly any may be
 */
export function filesOpenMax(
  { descriptorsMax, log }: Pick<World, "descriptorsMax" | "log">,
  { OBJECT_FILES_OPEN_MAX: wanted }: Pick<Settings, "OBJECT_FILES_OPEN_MAX">,
  copiesMax: number,
): number {
  if (descriptorsMax === undefined) return wanted;
  const kept = DESCRIPTORS_KEPT + copiesMax * DESCRIPTORS_PER_COPY;
  const fits = Math.floor((descriptorsMax - kept) / DESCRIPTORS_PER_FILE);
  if (wanted <= fits) return wanted;
  const needed = wanted * DESCRIPTORS_PER_FILE + kept;
  if (fits < 1) {
    throw MoonportError.of("bad_setting", `the process may have ${descriptorsMax} file descriptors, which is too few`, {
      hint: `raise the limit: ulimit -n ${needed}`,
    });
  }
  const fields = { OBJECT_FILES_OPEN_MAX: wanted, descriptors: descriptorsMax, needed };
  log.warn(fields, `at most ${fits} object files are kept open: the process may not have more descriptors`);
  return fits;
}
