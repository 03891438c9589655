/** The same work on other products, where they are installed: their rows, and what ours are held against. */
import { execFileSync } from "node:child_process";
import type { Case, Comparison, Group } from "../support/case.js";
import { type Found, findRedis, findWorkerd } from "./find.js";
import { PeerGroup, type PeerRow } from "./peer-group.js";
import type { Way } from "./peer-load.js";

type Method = PeerRow["method"];
type Spread = PeerRow["spread"];

export class Peers {
  readonly groups: readonly Group[];
  readonly #found: { readonly workerd: Found; readonly redis: Found };

  constructor(parent: string) {
    const workerd = findWorkerd(process.env, process.cwd());
    const redis = findRedis(process.env);
    this.#found = { workerd, redis };
    this.groups = [
      ...(workerd.kind === "found"
        ? [new PeerGroup(parent, { product: "workerd", binary: workerd.binary }, "workerd http", workerdRows())]
        : []),
      ...(redis.kind === "found"
        ? (["redis", "redis wait"] as const).map(
            (product) => new PeerGroup(parent, { product, binary: redis.binary }, product, redisRows(product)),
          )
        : []),
    ];
  }

  /** How to get what is asked for, all of it or by beginnings of rows' names, and not here. */
  hints(all: boolean, names: readonly string[]): readonly string[] {
    return Object.entries(this.#found).flatMap(([product, found]) => {
      const isAsked = all || names.some((name) => name.startsWith(product));
      return isAsked && found.kind === "missing" ? [found.hint] : [];
    });
  }

  /** @param names of rows that were measured @returns what the products among them call themselves */
  versions(names: readonly string[]): readonly string[] {
    return Object.entries(this.#found).flatMap(([product, found]) => {
      if (found.kind === "missing" || !names.some((name) => name.startsWith(product))) return [];
      return execFileSync(found.binary, ["--version"], { encoding: "utf8" }).trim().slice(0, 60);
    });
  }
}

/** Every row of ours also against the peers' rows that do the same. */
export function againstPeers(cases: readonly Case[]): Case[] {
  return cases.map((one) => {
    const peers = cases.filter(({ peerOf }) => peerOf?.includes(one.name));
    const figure: Comparison["figure"] = one.name.includes(" 1 in flight") ? "p50" : "rate";
    return { ...one, against: [...(one.against ?? []), ...peers.map(({ name }) => ({ figure, floors: [name] }))] };
  });
}

function workerdRows(): PeerRow[] {
  const methods = ["write", "look"] as const;
  return [
    ...methods.flatMap((method) => [
      ...[1, 64].map((inFlight) => row("workerd ws", "workerd sockets", method, "hot", inFlight, "ws")),
      ...[64, 256].map((inFlight) => row("workerd ws", "workerd sockets", method, "1000", inFlight, "ws")),
    ]),
    row("workerd worker", "workerd worker", "write", "hot", 64, "ws"),
    row("workerd worker", "workerd worker", "write", "1000", 256, "ws"),
    ...methods.flatMap((method) => [
      ...[1, 64].map((inFlight) => row("workerd http", "workerd http", method, "hot", inFlight, "http")),
      row("workerd http", "workerd http", method, "1000", 64, "http"),
    ]),
  ];
}

function redisRows(product: "redis" | "redis wait"): PeerRow[] {
  const inFlight = [1, 64];
  return [
    ...inFlight.map((count) => row(product, product, "write", "hot", count, "ws")),
    ...[...inFlight, 256].map((count) => row(product, product, "write", "1000", count, "ws")),
    ...(product === "redis" ? inFlight.map((count) => row(product, product, "look", "hot", count, "ws")) : []),
    ...(product === "redis wait"
      ? (
          [
            ["hot", 64],
            ["1000", 256],
          ] as const
        ).map(([spread, count]) => row("redis wait each", "redis wait each", "write", spread, count, "ws"))
      : []),
  ];
}

/** @param door of our rows */
function row(
  product: string,
  way: Way,
  method: Method,
  spread: Spread,
  inFlight: number,
  door: "ws" | "http",
): PeerRow {
  const call = `${method === "look" ? "read" : method} ${spread} ${inFlight} in flight`;
  const ours = `${door} ${call}`;
  return {
    name: `${product} ${call}`,
    way,
    method,
    spread,
    inFlight,
    ours: method === "write" ? [ours, `${ours} ids`] : [ours, ours.replace(" read ", " read anew ")],
  };
}
