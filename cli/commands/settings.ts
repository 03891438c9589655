/** `moonport settings` */
import type { Command } from "commander";
import { SETTING_NAMES, SETTINGS } from "../../src/settings/settings.js";
import { contextOf } from "../context.js";
import { tableOf } from "../table.js";

export function addSettings(program: Command): void {
  program
    .command("settings")
    .description("list every setting with its value as this command line and environment give it")
    .addHelpText("after", "\nExample:\n  OBJECT_ACK_GATE_MS=2000 moonport settings --set OBJECT_MAILBOX_MAX=64")
    .action((_flags: object, command: Command) => {
      const { output, settings } = contextOf(command);
      const all = SETTING_NAMES.map((name) => ({ name, value: settings[name], ...SETTINGS[name] }));
      const rows = all.map((one) => [one.name, one.value, one.default, one.unit, one.meaning] as const);
      output.result(tableOf({ columns: ["name", "value", "default", "unit", "meaning"], rows }), { settings: all });
    });
}
