/** `moonport subscribe Class/key` */
import type { Command } from "commander";
import { asMoonportError, MoonportError } from "../../src/errors.js";
import type { ObjectIdentity } from "../../src/identity.js";
import type { Delivery, ReadingCall, Sink, SubscribeFrom, Subscription } from "../../src/realtime/contract.js";
import { SETTINGS } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { parseWireJson } from "../../src/wire/wire-json.js";
import { deferred } from "../../src/world/deferred.js";
import { type Context, contextOf, wholeNumber } from "../context.js";
import { withRunningNode } from "../find-node.js";
import { jsonText, type Output } from "../output.js";
import { objectOf } from "../words.js";

interface SubscribeFlags {
  readonly after?: number;
  readonly names?: string;
  readonly snapshot?: string;
  readonly args?: string;
}

export function addSubscribe(program: Command): void {
  program
    .command("subscribe")
    .description("print an object's events as they come, until Ctrl-C; needs a running node")
    .argument("<object>", "Class/key")
    .option(
      "--after <number>",
      "begin with the events after this one (default: with what comes now)",
      wholeNumber(0, 1e15 - 1),
    )
    .option("--names <names>", "only events of these names: a,b")
    .option("--snapshot <method>", "a reading method's value first, and again after a gap")
    .option("--args <json>", "the snapshot's arguments, a JSON array")
    .addHelpText(
      "after",
      `
It resumes by itself when the node restarts, with nothing lost and nothing twice.

Examples:
  moonport subscribe Auction/lot-42
  moonport subscribe Auction/lot-42 --snapshot top
  moonport subscribe Auction/lot-42 --after 17 --names bid,closed --json`,
    )
    .action(async (object: string, flags: SubscribeFlags, command: Command) => {
      const context = contextOf(command);
      await subscribe(context, objectOf(context.app, object), flags);
    });
}

async function subscribe(context: Context, object: ObjectIdentity, flags: SubscribeFlags): Promise<void> {
  const reading = readingOf(flags);
  const request = {
    object,
    from: fromOf(flags.after, reading),
    caller: { kind: "client" as const },
    ...(flags.names !== undefined && { names: flags.names.split(",") }),
    ...(reading !== undefined && { snapshotAfterGap: reading }),
  };
  await withRunningNode(context, async (client, address) => {
    const printer = new Printer(object, context.output);
    const interrupted = (cause: MoonportError): void => printer.interrupted(cause);
    const subscription = await client.subscribe(request, printer, { address, interrupted });
    await printer.done(subscription);
  });
}

/** @throws MoonportError `bad_option`, `bad_json` */
function readingOf({ snapshot, args }: SubscribeFlags): ReadingCall | undefined {
  if (snapshot === undefined) {
    if (args === undefined) return undefined;
    throw MoonportError.of("bad_option", "--args are the arguments of a snapshot, and none is asked for", {
      hint: "--snapshot names the reading method",
    });
  }
  const value = args === undefined ? [] : parseWireJson(args, "--args", SETTINGS.VALUE_DEPTH_MAX.max);
  if (Array.isArray(value)) return { method: snapshot, args: value };
  throw MoonportError.of("bad_option", "--args is no array of arguments", {
    hint: "put a single argument into brackets: --args '[1]'",
  });
}

function fromOf(after: number | undefined, reading: ReadingCall | undefined): SubscribeFrom {
  if (after !== undefined) return { kind: "after", number: after };
  return reading === undefined ? { kind: "now" } : { kind: "snapshot", reading };
}

/** Deliveries, a line each; stdout sets the pace. */
class Printer implements Sink {
  readonly #object: string;
  readonly #output: Output;
  readonly #end = deferred();
  #isInterrupted = false;

  constructor({ id }: ObjectIdentity, output: Output) {
    this.#object = id;
    this.#output = output;
  }

  /** Resolves when the object has ended, or whoever reads this has had enough. */
  async done(subscription: Subscription): Promise<void> {
    const stop = (): void => this.#end.resolve();
    // Whoever reads stdout may stop at any time: `moonport subscribe ... | head -1`.
    process.stdout.on("error", stop);
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
    try {
      await this.#end.promise;
    } finally {
      subscription.close();
      process.off("SIGINT", stop);
      process.off("SIGTERM", stop);
    }
  }

  interrupted(cause: MoonportError): void {
    if (!this.#isInterrupted) this.#output.talk(`cut off: ${cause.message}; trying again`);
    this.#isInterrupted = true;
  }

  isFull(): boolean {
    return process.stdout.writableNeedDrain;
  }

  room(): Promise<void> | undefined {
    if (!process.stdout.writableNeedDrain) return undefined;
    return new Promise((resolve) => void process.stdout.once("drain", resolve));
  }

  deliver(delivery: Delivery): void {
    this.#isInterrupted = false;
    switch (delivery.kind) {
      case "event": {
        const { number, name, data, atMs } = delivery.event;
        const event = { object: this.#object, number, name, data, atMs };
        return this.#output.result(`#${number} ${name} ${jsonText(data)}`, { event });
      }
      case "subscribed":
        return this.#say(`subscribed to ${this.#object} after #${delivery.after}`, {
          subscribed: { after: delivery.after },
        });
      case "snapshot": {
        const { value, number } = delivery;
        return this.#output.result(`snapshot after #${number} ${jsonText(value)}`, { snapshot: { value, number } });
      }
      case "gap": {
        const { from, first } = delivery;
        return this.#output.result(`gap: #${from} to #${first - 1} are no longer kept`, { gap: { from, first } });
      }
      case "ended":
        return this.#ended(delivery);
      case "view":
      case "view_failed":
        return;
    }
  }

  #ended({ reason, after, error }: Extract<Delivery, { kind: "ended" }>): void {
    if (reason !== "destroyed") return this.#end.reject(asMoonportError(error));
    this.#say(`${this.#object} was destroyed; its last event was #${after}`, { ended: { reason, after } });
    this.#end.resolve();
  }

  /** For people it is talk, for machines a line like any other. */
  #say(text: string, document: { readonly [key: string]: PlainValue }): void {
    if (this.#output.json) this.#output.result(text, document);
    else this.#output.talk(text);
  }
}
