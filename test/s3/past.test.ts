/** The past of an object on a real S3 server, as an operator uses it: told, restored, forked, exported, by nodes that lost their disk. */
import fs from "node:fs";
import path from "node:path";
import { beforeAll, expect, it, vi } from "vitest";
import { cli, cliJson } from "../cli/cli.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { NoteNode, noteApp, noteOf, verifiedByCommand } from "./collection-support.js";

const SETTINGS = { COMPACT_SEGMENTS_MAX: 4, SEGMENT_INLINE_BYTES_MAX: 512 };

describeOnRealS3("an object's past on S3", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  it("comes back from the bucket alone", async () => {
    const app = noteApp(s3().env);
    const url = s3().bucketUrl("past");
    const first = await NoteNode.start(app, url, SETTINGS);
    for (let n = 1; n <= 20; n++) await first.call("a", "add", `line ${n}`);
    await first.kill();

    const node = await NoteNode.start(app, url, SETTINGS);
    const onNode = ["--data", "data"];
    const history = await cliJson(app, "history", "Note/a", ...onNode);
    expect(history.document).toMatchObject({
      seq: 20,
      destroyed: false,
      from: { seq: 1 },
      retentionMs: 7 * 86_400_000,
    });
    expect((await cliJson(app, "restore", "Note/a", "--at", "7", ...onNode)).document).toMatchObject({ fromSeq: 7 });
    expect(await node.call("a", "count")).toBe(7);
    const at = new Date((history.document.from as { atMs: number }).atMs - 1).toISOString();
    const early = await cliJson(app, "restore", "Note/a", "--at", at, ...onNode);
    expect([early.code, early.document]).toMatchObject([3, { error: { code: "not_in_history" } }]);
    await cliJson(app, "fork", "Note/a", "--to", "b", "--at", "20", ...onNode);
    expect(await node.call("b", "count")).toBe(20);
    expect((await node.inspect("b")).object).toBe(noteOf("b").id);
    await node.kill();

    // Nobody runs: the command is the folder's node for as long as it takes.
    const exported = await cli(
      app,
      "export",
      "Note/a",
      "--at",
      "12",
      "--out",
      "a.db",
      "--bucket",
      url,
      "--data",
      "other",
    );
    expect(exported).toMatchObject({ code: 0 });
    expect(fs.readFileSync(path.join(app.cwd, "a.db")).subarray(0, 15).toString()).toBe("SQLite format 3");
    expect((await cli(app, "export", "Note/a", "--out", "a.db", "--data", "other")).code).toBe(2);
    const report = await verifiedByCommand(app, url);
    expect(report).toMatchObject({ restorable: 2, damaged: { count: 0 }, garbage: { bodies: 0 } });
    expect(report.past).toMatchObject({ damaged: { count: 0 } });
  }, 120_000);
});
