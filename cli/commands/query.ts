/** `moonport query Class ["filter"] [params...]` */
import type { Command } from "commander";
import { checkClassName } from "../../src/identity.js";
import type { FoundRow } from "../../src/node-api.js";
import { contextOf, wholeNumber } from "../context.js";
import { withNode } from "../find-node.js";
import { tableOf } from "../table.js";
import { argumentOf } from "../words.js";

interface QueryFlags {
  readonly order?: string;
  readonly limit: number;
  readonly after?: string;
  readonly count?: boolean;
}

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 10_000;

export function addQuery(program: Command): void {
  program
    .command("query")
    .description("find objects of a class by its directory")
    .argument("<class>")
    .argument("[filter]", "which of them: top > 100 and status = 'open'")
    .argument("[params...]", "values of the filter's question marks, written as in call")
    .option("--order <columns>", "columns, with - before those that fall (default: by key)")
    .option("--limit <rows>", "rows of the page", wholeNumber(1, LIMIT_MAX), LIMIT_DEFAULT)
    .option("--after <cursor>", "go on where a page before ended")
    .option("--count", "say how many there are in all, too")
    .addHelpText(
      "after",
      `\nExample:\n  moonport query Auction "top > ? and status = 'open'" 100 --order=-top --limit 5`,
    )
    .action(
      async (className: string, filter: string | undefined, words: string[], flags: QueryFlags, command: Command) => {
        const context = contextOf(command);
        checkClassName(className);
        const { order, limit, after, count } = flags;
        const query = {
          limit,
          ...(filter !== undefined && { where: filter, params: words.map(argumentOf) }),
          ...(order !== undefined && { order }),
          ...(after !== undefined && { after }),
          ...(count === true && { count }),
        };
        const page = await withNode(context, "query", ({ node }) => node.find({ app: context.app, className, query }));
        if (page.rows.length > 0 || context.output.json) context.output.result(tableOf(rowsOf(page.rows)), page);
        const shown = page.rows.length === 1 ? "1 row" : `${page.rows.length} rows`;
        context.output.talk(page.count === undefined ? shown : `${shown} of ${page.count}`);
        if (page.after !== undefined) context.output.talk(`more: --after ${page.after}`);
      },
    );
}

/** One column for each that any of the rows has. */
function rowsOf(found: readonly FoundRow[]): Parameters<typeof tableOf>[0] {
  const columns = [...new Set(found.flatMap(({ row }) => Object.keys(row)))];
  const cell = (value: unknown): string | number | null =>
    typeof value === "boolean" ? String(value) : ((value ?? null) as string | number | null);
  const rows = found.map(({ key, row }) => [key, ...columns.map((column) => cell(row[column]))]);
  return { columns: ["key", ...columns], rows };
}
