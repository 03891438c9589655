/** What a node is made of; only the composition root and its callers know all of it. */
import type { AppSource } from "./app-source.js";
import type { Bucket } from "./bucket/bucket.js";
import type { Observer } from "./observation.js";
import type { Settings } from "./settings/settings.js";
import type { NativeClasses } from "./units/native.js";
import type { OutboundOptions } from "./units/outbound.js";
import type { Watchdog } from "./world/watchdog/watchdog.js";
import type { World } from "./world/world.js";

export interface NodeOptions {
  /** Its folder is the data folder. */
  readonly world: World;
  readonly bucket: Bucket;
  readonly apps: readonly AppSource[];
  readonly settings: Settings;
  /** `refuse`: a class that does not load stops the start (`start`). `report`: the others load, the fault is observed (`dev`). */
  readonly onClassError: "refuse" | "report";
  readonly observer?: Observer;
  /** Ends the process when its main thread hangs. Default: none. */
  readonly watchdog?: Watchdog;
  /** Host code that units call like objects, by class name; no Lua class may have one of the names. */
  readonly native?: NativeClasses;
  /** Where units may reach the network, and by what. Without it, nowhere. */
  readonly outbound?: OutboundOptions;
}
