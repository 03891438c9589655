/**
 * A node process with the Ledger class in its app's folder: started, called over HTTP, killed and started again on the same
 * data.
 */
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { CallReply, Inspection } from "../../src/node-api.js";
import type { PlainValue } from "../../src/values.js";
import { errorOf } from "../../src/wire/problem.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { RunningCli } from "../cli/cli.js";
import { argumentsOf, type LedgerCall } from "./ledger-model.js";

/** Where the node's history is, when not in its data folder. */
export interface RemoteBucket {
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface LedgerNodeOptions {
  readonly settings: Readonly<Record<string, number>>;
  readonly bucket?: RemoteBucket | undefined;
  /** Given what kills the node while it starts. */
  readonly killed?: (kill: () => void) => void;
}

export class LedgerNode {
  readonly url: string;
  readonly #process: RunningCli;
  readonly #client: HttpNodeClient;

  private constructor(url: string, process: RunningCli, client: HttpNodeClient) {
    this.url = url;
    this.#process = process;
    this.#client = client;
  }

  /** Resolves when the node is ready; with nothing if `killed` ended it before. */
  static async start(app: string, options: LedgerNodeOptions): Promise<LedgerNode | undefined> {
    const { settings, bucket, killed = () => {} } = options;
    const sets = Object.entries(settings).flatMap(([name, value]) => ["--set", `${name}=${value}`]);
    const where = bucket === undefined ? [] : ["--bucket", bucket.url];
    const words = ["start", "--data", "data", "--port", "0", "--json", "--log-level", "warn", ...where, ...sets];
    const process = new RunningCli({ cwd: app, ...(bucket && { env: bucket.env }) }, ...words);
    let wasKilled = false;
    killed(() => {
      wasKilled = true;
      process.signal("SIGKILL");
    });
    const ended = process.exit.then((code) => {
      if (wasKilled) return undefined;
      throw new Error(`the node ended with ${code}: ${process.stderr}`);
    });
    const ready = await Promise.race([process.document("url"), ended]);
    ended.catch(() => {});
    if (ready === undefined) return undefined;
    const url = String(ready.url);
    return new LedgerNode(url, process, new HttpNodeClient({ url, world: realWorld(app, silentLogger) }));
  }

  /** Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#process.signal("SIGKILL");
    await this.#process.exit;
    this.#client.close();
  }

  /** As an operator stops it: everything lands, every file is closed. */
  async stop(): Promise<void> {
    this.#process.signal("SIGTERM");
    const code = await this.#process.exit;
    this.#client.close();
    // A drain that gives up says so in the log and nowhere else.
    if (code !== 0 || this.#process.stderr.includes('"level":"error"'))
      throw new Error(`the node stopped with ${code}: ${this.#process.stderr}`);
  }

  /** @throws MoonportError; `node_unreachable` when the answer never came */
  async call(key: string, call: LedgerCall): Promise<CallReply> {
    const { callId, operation } = call;
    const args = argumentsOf(call);
    if (callId === undefined) return await this.#callWithoutId(key, operation.method, args);
    const object = identityOf("default", "Ledger", key);
    return await this.#client.call({ object, method: operation.method, args, caller: { kind: "client" }, callId });
  }

  async everything(key: string): Promise<PlainValue> {
    const object = identityOf("default", "Ledger", key);
    const read = { object, method: "everything", args: [], caller: { kind: "client" }, mustRead: true } as const;
    return (await this.#client.call(read)).value;
  }

  async inspect(key: string): Promise<Inspection> {
    return await this.#client.inspect(identityOf("default", "Ledger", key));
  }

  /** Our own client gives every call an id; this one is a caller who gives none. */
  async #callWithoutId(key: string, method: string, args: readonly PlainValue[]): Promise<CallReply> {
    let response: Response;
    let body: PlainValue;
    try {
      response = await fetch(`${this.url}/v1/default/Ledger/${encodeURIComponent(key)}/${method}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(args),
      });
      body = (await response.json()) as PlainValue;
    } catch (cause) {
      throw MoonportError.of("node_unreachable", "no answer", { cause });
    }
    if (!response.ok) throw errorOf(body) ?? new Error(`${response.status}: ${JSON.stringify(body)}`);
    const seq = response.headers.get("moonport-seq");
    return seq === null ? { value: body } : { value: body, seq: Number(seq) };
  }
}
