/** Nodes that have nothing but links: over a simulated network in virtual time, or over WebSockets on loopback. */
import type { Channel, ChannelEvents, Network, PeerAddress } from "../../src/links/contract.js";
import { Links, type LinksOptions } from "../../src/links/links.js";
import { WsNetwork } from "../../src/links/ws-network.js";
import { resolveSettings, type SettingName, type Settings } from "../../src/settings/settings.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { SimulatedNetwork, type SimulatedNetworkOptions } from "../../src/testing/simulated-network.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";

export interface StageNode extends PeerAddress {
  readonly links: Links;
}

export interface StageNodeOptions extends Partial<LinksOptions> {
  readonly set?: Partial<Record<SettingName, number>>;
  /** Before it starts. */
  readonly prepare?: (links: Links) => void;
}

export interface Stage {
  /** A started node of the fleet "test". */
  node(name: string, options?: StageNodeOptions): Promise<StageNode>;
  /** The network as somebody else sees it. */
  stranger(name: string): Network;
  /** Lets time pass until it settles. */
  until<T>(promise: Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

export function settingsWith(set: StageNodeOptions["set"] = {}): Settings {
  return resolveSettings(set as Record<string, number>);
}

type Base = Pick<LinksOptions, "world" | "network">;

async function startedNode(name: string, base: Base, options: StageNodeOptions): Promise<StageNode> {
  const { set, prepare, ...rest } = options;
  const links = new Links({
    settings: settingsWith(set),
    self: () => ({ node: name, session: `${name}-1` }),
    secret: "a secret of the test fleet",
    fleet: "test",
    version: "1.2.3",
    ...base,
    ...rest,
  });
  prepare?.(links);
  return { node: name, links, address: await links.start() };
}

export class SimulatedStage implements Stage {
  readonly time = new VirtualTime();
  readonly network: SimulatedNetwork;
  readonly #nodes: StageNode[] = [];

  constructor(options?: SimulatedNetworkOptions) {
    this.network = new SimulatedNetwork(this.time, options);
  }

  world(seed: number): LinksOptions["world"] {
    const { time } = this;
    const clock = { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs };
    return { clock, timers: time, random: new SeededRandom(seed), log: silentLogger };
  }

  async node(name: string, options: StageNodeOptions = {}): Promise<StageNode> {
    const base = { world: this.world(this.#nodes.length + 1), network: this.network.of(name) };
    const node = await startedNode(name, base, options);
    this.#nodes.push(node);
    return node;
  }

  stranger(name: string): Network {
    return this.network.of(name);
  }

  until<T>(promise: Promise<T>): Promise<T> {
    return this.time.until(promise);
  }

  async stop(): Promise<void> {
    for (const { links } of this.#nodes) await this.time.until(links.stop());
  }
}

export class RealStage implements Stage {
  readonly #nodes: StageNode[] = [];

  async node(name: string, options: StageNodeOptions = {}): Promise<StageNode> {
    const network: Network = new WsNetwork({ host: "127.0.0.1", port: 0, settings: settingsWith(options.set) });
    const node = await startedNode(name, { world: realWorld("unused", silentLogger), network }, options);
    this.#nodes.push(node);
    return node;
  }

  stranger(): Network {
    return new WsNetwork({ host: "127.0.0.1", port: 0, settings: settingsWith() });
  }

  until<T>(promise: Promise<T>): Promise<T> {
    return promise;
  }

  async stop(): Promise<void> {
    for (const { links } of this.#nodes) await links.stop();
  }
}

/** A network that tells what is sent and received through it. */
export function tapped(network: Network, tap: (way: "sent" | "received", message: Uint8Array) => void): Network {
  const tapChannel = (channel: Channel): Channel => ({
    send(message) {
      tap("sent", message);
      channel.send(message);
    },
    get bufferedBytes() {
      return channel.bufferedBytes;
    },
    trust: () => channel.trust(),
    close: (reason) => channel.close(reason),
  });
  const tapEvents = (events: ChannelEvents): ChannelEvents => ({
    message(message) {
      tap("received", message);
      events.message(message);
    },
    closed: (reason) => events.closed(reason),
  });
  return {
    connect: async (address, events, timeoutMs) =>
      tapChannel(await network.connect(address, tapEvents(events), timeoutMs)),
    listen: (accept) => network.listen((channel) => tapEvents(accept(tapChannel(channel)))),
  };
}
