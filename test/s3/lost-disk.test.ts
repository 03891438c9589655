/**
 * A node process on S3 is killed, its data folder is deleted, and a new one starts on the same bucket: whatever was
 * acknowledged is back, in every form in which an object can stand there.
 */
import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { CallReply } from "../../src/node-api.js";
import type { PlainValue } from "../../src/values.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { RunningCli } from "../cli/cli.js";
import { ledgerApp } from "../drill/ledger-app.js";
import { argumentsOf, LedgerHistory } from "../drill/ledger-model.js";
import { callOf, type Draft } from "../drill/ledger-plans.js";
import { StreamClient } from "../support/event-streams.js";
import { startFaultProxy } from "../support/fault-proxy.js";
import { describeOnRealS3 } from "../support/real-s3.js";

const SHELF = `local Shelf = class "Shelf"
Shelf.migrations = { "CREATE TABLE boxes (id INTEGER PRIMARY KEY, body BLOB NOT NULL)" }

function Shelf:put(boxes, bytes)
  for _ = 1, boxes do state.sql.exec("INSERT INTO boxes (body) VALUES (randomblob(?))", bytes) end
  return state.sql.one("SELECT count(*) AS n FROM boxes").n
end

function Shelf:leave()
  destroy()
end

-- What is in it, told in a few bytes.
function Shelf.read:sum()
  return state.sql.one([[SELECT count(*) AS n, sum(length(body)) AS bytes,
    group_concat(hex(substr(body, 1, 4)) || hex(substr(body, -4))) AS ends FROM (SELECT body FROM boxes ORDER BY id)]])
end

return Shelf
`;

/** Snapshots come early, are streamed above 64 KiB, and go in parts above 5 MiB. */
const SETTINGS = ["SNAPSHOT_INLINE_BYTES_MAX=65536", "COMPACT_SEGMENTS_MAX=4", "BUCKET_PART_BYTES=5242880"];

class Node {
  readonly url: string;
  readonly client: HttpNodeClient;
  readonly #process: RunningCli;

  static async start(cwd: string, bucketUrl: string, env: Readonly<Record<string, string>>): Promise<Node> {
    const sets = SETTINGS.flatMap((one) => ["--set", one]);
    const words = ["start", "--data", "data", "--bucket", bucketUrl, "--port", "0", "--json", "--log-level", "warn"];
    const process = new RunningCli({ cwd, env }, ...words, ...sets);
    return new Node(String((await process.document("url")).url), process);
  }

  private constructor(url: string, process: RunningCli) {
    this.url = url;
    this.#process = process;
    this.client = new HttpNodeClient({ url, world: realWorld("/nonexistent", silentLogger), timeoutMs: 60_000 });
    onTestFinished(() => this.client.close());
  }

  async kill(): Promise<void> {
    this.#process.signal("SIGKILL");
    await this.#process.exit;
  }

  call(object: ObjectIdentity, method: string, args: readonly PlainValue[] = [], callId?: string): Promise<CallReply> {
    return this.client.call({
      object,
      method,
      args,
      caller: { kind: "client" },
      ...(callId !== undefined && { callId }),
    });
  }

  async read(object: ObjectIdentity, method: string): Promise<PlainValue> {
    const request = { object, method, args: [], caller: { kind: "client" as const }, mustRead: true };
    return (await this.client.call(request)).value;
  }
}

const ledger = (key: string): ObjectIdentity => identityOf("default", "Ledger", key);
const shelf = (key: string): ObjectIdentity => identityOf("default", "Shelf", key);

describeOnRealS3("a node on S3 that lost its disk", (s3) => {
  it("has every acknowledged write again: hot and small, large, destroyed, reborn, with ids, events and rows", async () => {
    const app = ledgerApp();
    fs.writeFileSync(path.join(app, "classes", "Shelf.lua"), SHELF);
    const proxy = await startFaultProxy({ target: s3() });
    onTestFinished(() => proxy.stop());
    const bucketUrl = s3().bucketUrl("lost-disk", { endpoint: proxy.endpoint });
    const first = await Node.start(app, bucketUrl, s3().env);
    const histories = new Map([
      ["hot", new LedgerHistory("Ledger/hot")],
      ["quiet", new LedgerHistory("Ledger/quiet")],
    ]);
    const replies = new Map<string, CallReply>();

    const write = async (key: string, draft: Draft): Promise<void> => {
      const history = histories.get(key) as LedgerHistory;
      const call = callOf(history.calls.length + 1, draft, `${key}-${history.calls.length + 1}`);
      const asked = history.asked(call);
      const reply = await first.call(ledger(key), draft.method, argumentsOf(call), call.callId);
      asked.acknowledged(reply);
      replies.set(call.callId ?? "", reply);
    };
    const hot = Array.from(
      { length: 60 },
      (_, n): Draft => ({ method: n % 5 === 4 ? "rewrite" : "add", rows: 2, units: 40, back: 3 }) as Draft,
    );
    await Promise.all([
      ...hot.map((draft) => write("hot", draft)),
      write("quiet", { method: "add", rows: 1, units: 3 }),
    ]);

    // Large: its snapshot goes in parts, and segments follow it.
    for (let boxes = 0; boxes < 7; boxes++) await first.call(shelf("large"), "put", [3, 450_000]);
    expect(proxy.requests.map(({ kind }) => kind)).toContain("complete_upload");
    await first.call(shelf("large"), "put", [1, 100]);
    const large = await first.read(shelf("large"), "sum");

    for (const key of ["gone", "reborn"]) {
      await first.call(shelf(key), "put", [2, 5_000]);
      await first.call(shelf(key), "leave");
    }
    const reborn = await first.call(shelf("reborn"), "put", [1, 10]);
    const rebornSum = await first.read(shelf("reborn"), "sum");
    const before = await first.client.inspect(ledger("hot"));

    await first.kill();
    fs.rmSync(path.join(app, "data"), { recursive: true });
    const second = await Node.start(app, bucketUrl, s3().env);

    for (const [key, history] of histories) history.check(await second.read(ledger(key), "everything"));
    expect(await second.read(shelf("large"), "sum")).toEqual(large);
    expect(await second.read(shelf("reborn"), "sum")).toEqual(rebornSum);
    await expect(second.client.inspect(shelf("gone"))).resolves.toMatchObject({ state: "destroyed" });
    await expect(second.client.destroy(shelf("gone"))).rejects.toMatchObject({ code: "object_not_found" });

    // The ids of calls, the numbers of events and seqs, the row: they go on where they were.
    for (const id of ["hot-1", "hot-60", "quiet-1"]) {
      const [key = "", tag] = id.split("-");
      const call = (histories.get(key) as LedgerHistory).calls.find((one) => one.tag === Number(tag));
      if (call === undefined) throw new Error(`no call ${id}`);
      expect(await second.call(ledger(key), call.operation.method, argumentsOf(call), id)).toEqual(replies.get(id));
    }
    const after = await second.client.inspect(ledger("hot"));
    expect(after).toMatchObject({ seq: before.seq, events: before.events, directoryRow: before.directoryRow });
    expect(after.epoch).toBeGreaterThan(before.epoch);
    expect((await second.call(shelf("reborn"), "put", [1, 10])).seq).toBe((reborn.seq ?? 0) + 1);
    const events = await StreamClient.open(Number(new URL(second.url).port), "/v1/default/Ledger/hot/-/events?after=0");
    const numbersOf = (): number[] => events.messages.map(({ id }) => Number(id)).filter((number) => number > 0);
    await events.until(() => numbersOf().length >= before.events.count);
    expect(numbersOf()).toEqual(Array.from({ length: before.events.count }, (_, index) => index + 1));
  });
});
