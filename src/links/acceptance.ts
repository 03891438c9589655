/**
 * Somebody who has opened a channel to this node and has not proved anything yet. It gets LINK_CONNECT_MS, two small messages
 * and no memory beyond them; then it is a peer, or it is gone.
 */
import { asMoonportError } from "../errors.js";
import type { Timer } from "../world/world.js";
import type { Channel, ChannelEvents } from "./contract.js";
import { type Agreed, type Greeting, greet } from "./handshake.js";
import { type LinkContext, partyOf } from "./link-context.js";

export interface AcceptanceListener {
  /** It has proved itself. Whoever is returned hears the channel from now on. */
  accepted(channel: Channel, agreed: Agreed): ChannelEvents;
  /** Neither accepted nor refused any more. */
  over(): void;
}

type State =
  | { readonly kind: "new" }
  | { readonly kind: "challenged"; readonly greeting: Extract<Greeting, { kind: "challenge" }> }
  | { readonly kind: "accepted"; readonly events: ChannelEvents }
  | { readonly kind: "over" };

export class Acceptance implements ChannelEvents {
  readonly #context: LinkContext;
  readonly #channel: Channel;
  readonly #listener: AcceptanceListener;
  readonly #timer: Timer;
  #state: State = { kind: "new" };

  constructor(context: LinkContext, channel: Channel, listener: AcceptanceListener) {
    this.#context = context;
    this.#channel = channel;
    this.#listener = listener;
    const limitMs = context.settings.LINK_CONNECT_MS;
    this.#timer = context.world.timers.after(limitMs, () => this.refuse(`no proof within ${limitMs} ms`));
  }

  message(message: Uint8Array): void {
    if (this.#state.kind === "accepted") return this.#state.events.message(message);
    try {
      if (this.#state.kind === "new") this.#greet(message);
      else if (this.#state.kind === "challenged") this.#accept(this.#state.greeting.proven(message));
    } catch (error) {
      this.refuse(asMoonportError(error).message);
    }
  }

  closed(reason: string): void {
    if (this.#state.kind === "accepted") this.#state.events.closed(reason);
    else this.#end();
  }

  /** Idempotent. */
  refuse(why: string): void {
    if (this.#state.kind === "accepted" || this.#state.kind === "over") return;
    this.#context.world.log.debug({ why }, "a link was not accepted");
    this.#channel.close("refused");
    this.#end();
  }

  #greet(hello: Uint8Array): void {
    const greeting = greet(partyOf(this.#context), hello);
    this.#channel.send(greeting.message);
    if (greeting.kind === "challenge") this.#state = { kind: "challenged", greeting };
    else this.refuse(greeting.why);
  }

  #accept(agreed: Agreed): void {
    this.#timer.cancel();
    this.#channel.trust();
    this.#state = { kind: "accepted", events: this.#listener.accepted(this.#channel, agreed) };
    this.#listener.over();
  }

  #end(): void {
    this.#timer.cancel();
    this.#state = { kind: "over" };
    this.#listener.over();
  }
}
