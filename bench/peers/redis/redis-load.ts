/**
 * Scripts of Redis called by a load that lays its commands out in advance. WAIT speaks for everything that its connection has
 * written before: over one connection, one behind all calls of a flush serves them together, and holds up those that come next.
 * Clients that do not share a connection have one each.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { type Line, LineLoad } from "../../load/line-load.js";
import { placeOf } from "../../load/load.js";
import { BENCH_FOLDER } from "../../support/bench-node.js";
import { writeNumber } from "../digits.js";
import type { PeerLoadSpec } from "../peer-load.js";
import { command, RedisConnection } from "./resp.js";

const AMOUNT_CHARACTERS = 10;
const AMOUNT_END = "\r\n".length;
const WAIT_MS = 10_000;
const WAIT_FOR_ONE = command("WAIT", "1", String(WAIT_MS));
const ONE_REPLICA = Buffer.from(":1\r\n");

export async function openRedisLoad(spec: PeerLoadSpec): Promise<LineLoad> {
  const script = readFileSync(path.join(BENCH_FOLDER, "peers/redis", `${spec.method}.lua`), "utf8");
  const hasOneEach = spec.way === "redis wait each";
  const connections = await Promise.all(
    Array.from({ length: hasOneEach ? spec.inFlight : 1 }, () => RedisConnection.open(spec.url)),
  );
  await connections[0]?.ask("SCRIPT", "LOAD", script);
  const calls = spec.keys.map((key) => callOf(script, key, spec.method));
  const callAt = (index: number): Buffer => {
    const call = calls[placeOf(index, calls.length)] as (typeof calls)[number];
    return call(index);
  };
  const lines = connections.map((connection) => redisLine(connection, callAt, spec.way !== "redis"));
  return new LineLoad(lines, hasOneEach ? 1 : spec.inFlight);
}

/** Replies come in the order of the commands: they need no numbers. */
function redisLine(connection: RedisConnection, callAt: (index: number) => Buffer, waits: boolean): Line {
  const replies: Reply[] = [];
  let outgoing: Buffer[] = [];
  let laidOut: number[] = [];
  return {
    listen: ({ answered, readDone, failed }) =>
      connection.listen({
        reply: (bytes) => {
          const reply = replies.shift() as Reply;
          if (reply.kind === "call") return waits ? undefined : answered(reply.id);
          if (!bytes.equals(ONE_REPLICA)) return failed(new Error(`WAIT was answered ${bytes.toString("latin1")}`));
          for (const id of reply.ids) answered(id);
        },
        readDone,
        failed,
      }),
    call: (id, index) => {
      replies.push({ kind: "call", id });
      laidOut.push(id);
      outgoing.push(callAt(index));
    },
    flush: () => {
      if (outgoing.length === 0) return;
      if (waits) {
        replies.push({ kind: "wait", ids: laidOut });
        outgoing.push(WAIT_FOR_ONE);
      }
      connection.send(outgoing.length === 1 ? (outgoing[0] as Buffer) : Buffer.concat(outgoing));
      outgoing = [];
      laidOut = [];
    },
    close: () => connection.close(),
  };
}

/** What the next reply stands for. */
type Reply =
  | { readonly kind: "call"; readonly id: number }
  /** The replica has what these calls wrote. */
  | { readonly kind: "wait"; readonly ids: readonly number[] };

/** A script call with room for an amount, which is its last word. */
function callOf(script: string, key: string, method: "write" | "look"): (index: number) => Buffer {
  const sha = createHash("sha1").update(script).digest("hex");
  const [entries, last, events] = [`${key}:entries`, `${key}:last`, `${key}:events`];
  if (method === "look") {
    const look = command("EVALSHA", sha, "2", entries, last);
    return () => look;
  }
  const amount = "0".repeat(AMOUNT_CHARACTERS);
  const template = command("EVALSHA", sha, "4", entries, last, events, "directory", key, "ada", amount);
  return (index) => {
    const bytes = Buffer.from(template);
    writeNumber(bytes, index, bytes.length - AMOUNT_END);
    return bytes;
  };
}
