/** `moonport export Class/key --out FILE [--at POINT]` */
import fs from "node:fs";
import path from "node:path";
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import type { ExportedDatabase } from "../../src/node-api.js";
import { storageError } from "../../src/world/folder.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { objectOf, pointOf } from "../words.js";
import { AT_MEANING, fromText } from "./restore.js";

interface Flags {
  readonly out: string;
  readonly at?: string;
}

export function addExport(program: Command): void {
  program
    .command("export")
    .description("write an object's database, as it was or is, to a file that SQLite opens")
    .argument("<object>", "Class/key")
    .requiredOption("--out <file>", "a file that is not there yet")
    .option("--at <point>", `${AT_MEANING}; default now`)
    .addHelpText("after", "\nExample:\n  moonport export Auction/lot-42 --at 14:03:20 --out lot-42.db")
    .action(async (object: string, { out, at }: Flags, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const point = at === undefined ? undefined : pointOf(at, Date.now());
      const file = path.resolve(out);
      if (fs.existsSync(file)) throw MoonportError.of("bad_option", `${out} is there already`);
      const exported = await withNode(context, "export", async ({ node }) => {
        const { parts, ...rest } = await node.exportDatabase(identity, point);
        await write(file, rest, parts);
        return rest;
      });
      const { seq, atMs, bytes } = exported;
      const from = fromText({ fromSeq: seq, ...(atMs !== undefined && { fromMs: atMs }) });
      context.output.result(`${out}: ${identity.id} at ${from}, ${bytes} bytes`, { file, ...exported });
    });
}

/** The file has its name when it is whole. */
async function write(
  file: string,
  { bytes }: Pick<ExportedDatabase, "bytes">,
  parts: ExportedDatabase["parts"],
): Promise<void> {
  const beside = `${file}.part`;
  try {
    const handle = fs.openSync(beside, "w");
    let written = 0;
    try {
      for await (const part of parts) written += fs.writeSync(handle, part);
    } finally {
      fs.closeSync(handle);
    }
    if (written !== bytes) throw MoonportError.of("node_unreachable", `the node sent ${written} bytes of ${bytes}`);
    fs.renameSync(beside, file);
  } catch (error) {
    fs.rmSync(beside, { force: true });
    throw error instanceof MoonportError ? error : storageError("write", file, error);
  }
}
