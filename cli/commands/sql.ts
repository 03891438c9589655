/** `moonport sql Class/key "select ..." [params...]` */
import type { Command } from "commander";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { tableOf } from "../table.js";
import { objectOf, sqlParameterOf } from "../words.js";

export function addSql(program: Command): void {
  program
    .command("sql")
    .description("run one reading statement on an object's database")
    .argument("<object>", "Class/key")
    .argument("<statement>")
    .argument("[params...]", "values of its question marks, written as in call")
    .addHelpText(
      "after",
      `\nExample:\n  moonport sql Auction/lot-42 "SELECT who, amount FROM bids WHERE amount > ?" 20`,
    )
    .action(async (object: string, statement: string, words: string[], _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const parameters = words.map(sqlParameterOf);
      const found = await withNode(context, "sql", ({ node }) => node.sql(identity, statement, parameters), {
        isRepeatable: true,
      });
      context.output.result(tableOf(found), { columns: found.columns, rows: found.rows });
      context.output.talk(found.rows.length === 1 ? "1 row" : `${found.rows.length} rows`);
    });
}
