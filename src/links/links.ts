/**
 * The links of a node: one to each address that it asks, one from each node that asks it. A pair of nodes that ask each other
 * has two, because each side dials for its own requests: so neither has to find out which of two dials wins, and requests,
 * bounds and back-off of one direction know nothing of the other's.
 */
import { assert, MoonportError } from "../errors.js";
import { LinkCounters } from "../metrics/fleet-counters.js";
import type { Settings } from "../settings/settings.js";
import { Deadlines } from "../world/deadlines.js";
import type { World } from "../world/world.js";
import { Acceptance } from "./acceptance.js";
import type {
  Channel,
  ChannelEvents,
  Listening,
  Network,
  PeerAddress,
  PeerName,
  Peers,
  RequestHandler,
  RequestOptions,
  StreamHandler,
} from "./contract.js";
import { type Agreed, PROTOCOLS, type ProtocolRange } from "./handshake.js";
import { IncomingLink } from "./incoming-link.js";
import type { LinkContext } from "./link-context.js";
import { OutgoingLink } from "./outgoing-link.js";
import { StreamReader } from "./streams.js";

export interface LinksOptions {
  readonly world: Pick<World, "clock" | "timers" | "random" | "log">;
  readonly settings: Settings;
  readonly network: Network;
  /** Asked at each handshake and each request: a node that lost its session has another one later. */
  readonly self: () => PeerName;
  /** What all nodes of the fleet know and nobody else. Whoever reaches a node can try guesses, so it must be random. */
  readonly secret: string;
  /** Name of the fleet; nodes of another one are refused. */
  readonly fleet: string;
  /** Of the package, for messages and logs. */
  readonly version: string;
  /** Default: those of this release. */
  readonly protocols?: ProtocolRange;
  /** Told of each link to another node that stood and broke. */
  readonly lost?: () => void;
  /** Of what links carry. */
  readonly counters?: LinkCounters;
}

/** Channels that have proved nothing yet; one more takes the place of the one that has had most time. */
const STRANGERS_MAX = 256;

type State =
  | { readonly kind: "new" }
  | { readonly kind: "starting" }
  | { readonly kind: "started"; readonly listening: Listening }
  | { readonly kind: "stopped" };

export class Links implements Peers {
  readonly #context: LinkContext;
  readonly #requests = new Map<string, RequestHandler>();
  readonly #streams = new Map<string, StreamHandler>();
  /** By node and address: an old address must not take the link of the present one down. */
  readonly #outgoing = new Map<string, OutgoingLink>();
  /** By the node's name and session and the address it dialled. */
  readonly #incoming = new Map<string, IncomingLink>();
  readonly #strangers = new Set<Acceptance>();
  #state: State = { kind: "new" };

  constructor({ world, protocols = PROTOCOLS, lost = () => {}, counters = new LinkCounters(), ...rest }: LinksOptions) {
    assert(rest.secret !== "" && rest.fleet !== "", "a fleet has a name and a secret");
    this.#context = { ...rest, world, protocols, lost, counters, deadlines: new Deadlines(world) };
  }

  /** Links that stand. */
  get standing(): { readonly outgoing: number; readonly incoming: number } {
    const outgoing = [...this.#outgoing.values()].filter(({ isUp }) => isUp).length;
    return { outgoing, incoming: this.#incoming.size };
  }

  /** Asked of others and not answered yet. */
  get underWay(): number {
    return [...this.#outgoing.values()].reduce((sum, { size }) => sum + size, 0);
  }

  handle(kind: string, handler: RequestHandler): void {
    assert(this.#state.kind === "new" && !this.#requests.has(kind), `"${kind}" has one handler, from the start`);
    this.#requests.set(kind, handler);
  }

  handleStream(kind: string, handler: StreamHandler): void {
    assert(this.#state.kind === "new" && !this.#streams.has(kind), `"${kind}" has one handler, from the start`);
    this.#streams.set(kind, handler);
  }

  /** @returns where others reach this node. @throws MoonportError `address_in_use`, `bad_option` */
  async start(): Promise<string> {
    assert(this.#state.kind === "new", "links start once");
    this.#state = { kind: "starting" };
    const listening = await this.#context.network.listen((channel) => this.#accept(channel));
    if (this.#isStopped()) {
      await listening.close();
      throw stopping();
    }
    this.#state = { kind: "started", listening };
    return listening.address;
  }

  /** Closes all links; whatever is under way fails. Idempotent. */
  async stop(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    const why = "the node is shutting down";
    for (const stranger of [...this.#strangers]) stranger.refuse(why);
    for (const link of [...this.#incoming.values()]) link.close(why);
    for (const link of this.#outgoing.values()) link.stop(why);
    this.#outgoing.clear();
    this.#context.deadlines.stop();
    if (state.kind === "started") await state.listening.close();
  }

  request(to: PeerAddress, kind: string, body: unknown, options: RequestOptions = {}): Promise<unknown> {
    if (this.#isStopped()) return Promise.reject(stopping());
    const { timeoutMs = this.#context.settings.LINK_REQUEST_MS, asker } = options;
    return this.#linkTo(to).request(kind, body, timeoutMs, asker);
  }

  openStream(to: PeerAddress, kind: string, body: unknown): AsyncIterable<unknown> {
    return new StreamReader(this.#context.settings.LINK_STREAM_WINDOW, (reader) => {
      if (!this.#isStopped()) return this.#linkTo(to).openStream(reader, kind, body);
      reader.end(stopping());
      return undefined;
    });
  }

  #isStopped(): boolean {
    return this.#state.kind === "stopped";
  }

  #linkTo(to: PeerAddress): OutgoingLink {
    const key = `${to.node} ${to.address}`;
    let link = this.#outgoing.get(key);
    if (link === undefined) {
      link = new OutgoingLink(this.#context, to, () => this.#outgoing.delete(key));
      this.#outgoing.set(key, link);
    }
    return link;
  }

  #accept(channel: Channel): ChannelEvents {
    const stranger: Acceptance = new Acceptance(this.#context, channel, {
      accepted: (accepted, agreed) => this.#admit(accepted, agreed),
      over: () => this.#strangers.delete(stranger),
    });
    this.#strangers.add(stranger);
    if (this.#isStopped()) stranger.refuse("the node is shutting down");
    const [oldest] = this.#strangers;
    if (this.#strangers.size > STRANGERS_MAX) oldest?.refuse("others came after it");
    return stranger;
  }

  #admit(channel: Channel, agreed: Agreed): ChannelEvents {
    const { peer, address } = agreed;
    const key = `${peer.node} ${peer.session} ${address}`;
    // The other side has given that one up, whatever of it may still arrive: nothing late may come after what is new.
    this.#incoming.get(key)?.close("another link took its place");
    const handlers = { requests: this.#requests, streams: this.#streams };
    const link: IncomingLink = new IncomingLink(this.#context, handlers, channel, agreed, () => {
      if (this.#incoming.get(key) === link) this.#incoming.delete(key);
    });
    this.#incoming.set(key, link);
    const { frames } = link;
    return { message: (message) => frames.received(message), closed: (reason) => frames.channelClosed(reason) };
  }
}

function stopping(): MoonportError {
  return MoonportError.of("node_stopping", "the node is shutting down");
}
