/** Delayed commands as a client asks for them: for operators, with the right `admin`. */
import type { ChangedAnswer, CommandInfo, DelayedCommand, DelayFilter, SendTime } from "../delay/contract.js";
import type { PlainValue } from "../values.js";
import type { DelayAsk } from "../wire/frames.js";
import { timeOf } from "./send.js";

export class ClientDelay {
  readonly #ask: (ask: DelayAsk) => Promise<PlainValue>;

  constructor(ask: (ask: DelayAsk) => Promise<PlainValue>) {
    this.#ask = ask;
  }

  /** In the order of their ids. @throws MoonportError `forbidden` */
  async list(filter: DelayFilter = {}): Promise<readonly CommandInfo[]> {
    const { commands } = await this.#answer<{ commands: CommandInfo[] }>({ kind: "list", filter });
    return commands;
  }

  /** Undefined when there is no such command. @throws MoonportError `forbidden` */
  async get(id: string): Promise<DelayedCommand | undefined> {
    const { found, ...rest } = await this.#answer<{ found: boolean } & DelayedCommand>({ kind: "get", command: id });
    return found ? rest : undefined;
  }

  /** Takes a command back, and says whether that was in time. @throws MoonportError `delivery_under_way`, `forbidden` */
  async cancel(id: string): Promise<ChangedAnswer> {
    return (await this.#answer<{ answer: ChangedAnswer }>({ kind: "cancel", command: id })).answer;
  }

  /** Gives it another time. @throws MoonportError as {@link cancel} */
  async move(id: string, time: SendTime): Promise<ChangedAnswer> {
    const ask: DelayAsk = { kind: "move", command: id, time: timeOf(time) };
    return (await this.#answer<{ answer: ChangedAnswer }>(ask)).answer;
  }

  /** Delivers a dead letter after all. Whether there was one. @throws MoonportError `forbidden` */
  async retry(id: string): Promise<boolean> {
    return (await this.#answer<{ retried: boolean }>({ kind: "retry", command: id })).retried;
  }

  /** What a node says to each is told in wire/frames. */
  async #answer<T>(ask: DelayAsk): Promise<T> {
    return (await this.#ask(ask)) as T;
  }
}
