/** The engine's limits among the settings. */

import type { Settings } from "../settings/settings.js";
import type { LuaLimits } from "./contract.js";

export function luaLimits(settings: Settings): LuaLimits {
  return {
    methodBudgetMs: settings.METHOD_BUDGET_MS,
    sliceMs: settings.METHOD_SLICE_MS,
    instructionsMax: settings.METHOD_INSTRUCTIONS_MAX,
    directoryBudgetMs: settings.DIRECTORY_BUDGET_MS,
    memoryBytesMax: settings.CALL_MEMORY_BYTES,
    stringBytesMax: settings.CALL_STRING_BYTES_MAX,
    callDepthMax: settings.CALL_DEPTH_MAX,
    valueDepthMax: settings.VALUE_DEPTH_MAX,
    valueBytesMax: settings.VALUE_BYTES_MAX,
  };
}
