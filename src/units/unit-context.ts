/** What units need of their node. Made by the composition root. */
import type { ObjectIdentity } from "../identity.js";
import type { LuaUnit, MethodKind } from "../lua/contract.js";
import type { CallRequest } from "../node-api.js";
import type { ObjectContext } from "../object/object-context.js";
import type { DeferredOutcome } from "../object/work.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import type { NativeClasses } from "./native.js";
import type { Outbound } from "./outbound.js";

export interface UnitContext {
  readonly world: World;
  readonly settings: Settings;
  readonly native: NativeClasses;
  readonly outbound: Outbound;
  /** @throws MoonportError `app_not_found`, `unit_not_found`, the unit's own `unit_invalid` */
  unitOf(app: string, unit: string): LuaUnit;
  /** @throws MoonportError `class_not_found`, `method_not_found` */
  access(object: ObjectIdentity, method: string): MethodKind;
  /** @throws MoonportError when the call never ran */
  callDeferred(request: CallRequest): Promise<DeferredOutcome>;
  /** @throws MoonportError */
  find: ObjectContext["find"];
}
