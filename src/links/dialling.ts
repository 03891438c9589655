/** One try to make a link, bounded by LINK_CONNECT_MS from the first packet to the other side's proof. */
import { asMoonportError, MoonportError } from "../errors.js";
import type { Timer } from "../world/world.js";
import type { Channel, ChannelEvents, PeerAddress } from "./contract.js";
import { type Agreed, DiallerHandshake } from "./handshake.js";
import { type LinkContext, partyOf } from "./link-context.js";

export interface DiallingListener {
  /** The other side is who it should be. Whoever is returned hears the channel from now on. */
  made(channel: Channel, agreed: Agreed): ChannelEvents;
  /** `node_unreachable` or `link_refused`. */
  failed(error: MoonportError): void;
}

type State =
  | { readonly kind: "connecting" }
  | { readonly kind: "greeting"; readonly channel: Channel }
  | { readonly kind: "made"; readonly events: ChannelEvents }
  | { readonly kind: "over" };

export class Dialling implements ChannelEvents {
  readonly #to: PeerAddress;
  readonly #listener: DiallingListener;
  readonly #handshake: DiallerHandshake;
  readonly #timer: Timer;
  /** Whose life this node announced. */
  readonly session: string;
  #state: State = { kind: "connecting" };

  constructor(context: LinkContext, to: PeerAddress, listener: DiallingListener) {
    const { world, settings, network } = context;
    const party = partyOf(context);
    this.#to = to;
    this.#listener = listener;
    this.session = party.self.session;
    this.#handshake = new DiallerHandshake(party, to);
    const limitMs = settings.LINK_CONNECT_MS;
    this.#timer = world.timers.after(limitMs, () => this.#fail(this.#unreachable(`no link within ${limitMs} ms`)));
    network.connect(to.address, this, limitMs).then(
      (channel) => this.#connected(channel),
      (error) => this.#fail(asMoonportError(error)),
    );
  }

  /** Nobody is told. Idempotent. */
  cancel(why: string): void {
    const { kind } = this.#state;
    if (kind === "connecting" || kind === "greeting") this.#end(why);
  }

  message(message: Uint8Array): void {
    const state = this.#state;
    if (state.kind === "made") return state.events.message(message);
    if (state.kind !== "greeting") return;
    try {
      const { proof, agreed } = this.#handshake.answer(message);
      state.channel.trust();
      state.channel.send(proof);
      this.#timer.cancel();
      this.#state = { kind: "made", events: this.#listener.made(state.channel, agreed) };
    } catch (error) {
      this.#fail(asMoonportError(error));
    }
  }

  closed(reason: string): void {
    const state = this.#state;
    if (state.kind === "made") state.events.closed(reason);
    else this.#fail(this.#unreachable(`it closed the link before it said who it is (${reason})`));
  }

  #connected(channel: Channel): void {
    if (this.#state.kind !== "connecting") return channel.close("nobody waits for it any more");
    this.#state = { kind: "greeting", channel };
    channel.send(this.#handshake.hello);
  }

  #fail(error: MoonportError): void {
    if (this.#state.kind !== "connecting" && this.#state.kind !== "greeting") return;
    this.#end(error.message);
    this.#listener.failed(error);
  }

  #end(why: string): void {
    this.#timer.cancel();
    if (this.#state.kind === "greeting") this.#state.channel.close(why);
    this.#state = { kind: "over" };
  }

  #unreachable(why: string): MoonportError {
    const { node, address } = this.#to;
    return MoonportError.of("node_unreachable", `${node} cannot be reached at ${address}: ${why}`);
  }
}
