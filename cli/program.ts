/** The command line as a whole: shared flags, one module per command, help that shows both. */
import { Command } from "commander";
import { addCall } from "./commands/call.js";
import { addCheck } from "./commands/check.js";
import { addClasses } from "./commands/classes.js";
import { addDelay } from "./commands/delay.js";
import { addDeploy, addRollback } from "./commands/deploy.js";
import { addDestroy } from "./commands/destroy.js";
import { addDev } from "./commands/dev.js";
import { addDirectory } from "./commands/directory.js";
import { addDrain } from "./commands/drain.js";
import { addExport } from "./commands/export.js";
import { addGet } from "./commands/get.js";
import { addHistory } from "./commands/history.js";
import { addInspect } from "./commands/inspect.js";
import { addList } from "./commands/list.js";
import { addNew } from "./commands/new.js";
import { addNodes } from "./commands/nodes.js";
import { addQuarantine } from "./commands/quarantine.js";
import { addQuery } from "./commands/query.js";
import { addRecover } from "./commands/recover.js";
import { addReleases } from "./commands/releases.js";
import { addFork, addRestore } from "./commands/restore.js";
import { addRing } from "./commands/ring.js";
import { addSend } from "./commands/send.js";
import { addSettings } from "./commands/settings.js";
import { addSql } from "./commands/sql.js";
import { addStart } from "./commands/start.js";
import { addSubscribe } from "./commands/subscribe.js";
import { addTest } from "./commands/test.js";
import { addTimers } from "./commands/timers.js";
import { addToken } from "./commands/token.js";
import { addUnit } from "./commands/unit.js";
import { addVerify } from "./commands/verify.js";
import { addSharedFlags } from "./context.js";
import { exitCodesHelp } from "./exit-codes.js";
import { packageVersion } from "./package-root.js";

export function buildProgram(): Command {
  const program = new Command("moonport")
    .description("Object classes in Lua, each object its own SQLite database, every reply durable.")
    .version(packageVersion(), "--version", "print the version")
    .helpOption("--help", "show help")
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true })
    // Errors are thrown and told in one place, in words or as JSON.
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .addHelpText(
      "after",
      `
Example:
  moonport new my-app && cd my-app
  moonport call Counter/visits increment
${exitCodesHelp()}`,
    );
  addSharedFlags(program);
  for (const add of [addNew, addDev, addCheck, addTest, addStart]) add(program);
  for (const add of [addDeploy, addReleases, addRollback]) add(program);
  for (const add of [addCall, addSend, addTimers, addDelay]) add(program);
  for (const add of [addUnit, addGet, addList, addQuery, addSql, addInspect, addDestroy]) add(program);
  for (const add of [addHistory, addRestore, addFork, addExport]) add(program);
  for (const add of [addSubscribe, addDirectory, addNodes, addRing, addDrain, addRecover, addQuarantine, addVerify])
    add(program);
  for (const add of [addClasses, addSettings, addToken]) add(program);
  return program;
}
