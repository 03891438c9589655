/**
 * A network between nodes in one process, under virtual time and from one seed: messages take their time, and directions can
 * be cut, nodes killed, connections refused.
 *
 * A channel is what a TCP connection is: what one side sends arrives whole and in order or, from some point on, not at all.
 * While a direction is cut, what is sent in it waits unseen, the word that a channel was closed too. When it is healed, the
 * seed decides for each channel whether what waited arrives late or the channel breaks.
 */
import { MoonportError } from "../errors.js";
import {
  type Channel,
  type ChannelEvents,
  type Listening,
  type Network,
  STRANGER_BYTES_MAX,
} from "../links/contract.js";
import type { Timer } from "../world/world.js";
import { SeededRandom } from "./seeded-random.js";
import type { VirtualTime } from "./virtual-time.js";
import { WorldRevoked } from "./virtual-world.js";

export interface LatencyMs {
  readonly min: number;
  readonly max: number;
}

export interface SimulatedNetworkOptions {
  readonly seed?: number;
  /** One way. Default 0.2 to 2 ms. */
  readonly latencyMs?: LatencyMs;
}

export interface KillOptions {
  /** As a machine that lost its power: nobody is told. Default: as a process that died, whose system tells the others. */
  readonly silently?: boolean;
}

const SCHEME = "sim://";
/** What a system takes off a sender's hands before the receiver has taken it. */
const WINDOW_BYTES = 65_536;

type Accept = (channel: Channel) => ChannelEvents;

export class SimulatedNetwork {
  readonly time: VirtualTime;
  readonly #random: SeededRandom;
  readonly #latencyMs: LatencyMs;
  readonly #listening = new Map<string, Accept>();
  readonly #refusing = new Set<string>();
  /** Of machines that are off: nobody answers there at all. */
  readonly #dark = new Set<string>();
  /** By "from to". */
  readonly #cuts = new Set<string>();
  readonly #slow = new Map<string, LatencyMs>();
  readonly #pipes = new Set<Pipe>();
  /** Lives of nodes: one that was killed is there again only by {@link of}. */
  readonly #lives = new Map<string, number>();

  constructor(time: VirtualTime, { seed = 1, latencyMs = { min: 0.2, max: 2 } }: SimulatedNetworkOptions = {}) {
    this.time = time;
    this.#random = new SeededRandom(seed);
    this.#latencyMs = latencyMs;
  }

  /** The network as a node sees it that is reached at `sim://<name>`, from now until it is killed. */
  of(name: string): Network {
    this.#dark.delete(name);
    const life = this.#lives.get(name) ?? 0;
    const isAlive = (): boolean => (this.#lives.get(name) ?? 0) === life;
    return {
      connect: (address, events, timeoutMs) => this.#connect(name, address, events, timeoutMs, isAlive),
      listen: async (accept) => {
        if (!isAlive() || this.#listening.has(name))
          throw MoonportError.of("address_in_use", `${name} listens already`);
        return this.#listen(name, accept);
      },
    };
  }

  /** Channels that neither side has closed. */
  get openChannels(): number {
    return [...this.#pipes].filter(({ isOpen }) => isOpen).length;
  }

  /** Nothing gets from `one` to `other`, nor back unless `oneWay`. */
  cut(one: string, other: string, oneWay = false): void {
    this.#cuts.add(direction(one, other));
    if (!oneWay) this.#cuts.add(direction(other, one));
  }

  /** Nothing gets from one group to another. */
  partition(...groups: readonly (readonly string[])[]): void {
    for (const group of groups) {
      const others = groups.filter((other) => other !== group).flat();
      for (const one of group) for (const other of others) this.cut(one, other, true);
    }
  }

  /** Ends the cuts between two nodes, or all. */
  heal(one?: string, other?: string): void {
    if (one === undefined || other === undefined) this.#cuts.clear();
    else for (const ends of [direction(one, other), direction(other, one)]) this.#cuts.delete(ends);
    for (const pipe of [...this.#pipes]) pipe.healed();
  }

  /** The node's end of each channel is gone without a word to it; nobody listens at its name, and its `of` is void. */
  kill(name: string, { silently = false }: KillOptions = {}): void {
    this.#lives.set(name, (this.#lives.get(name) ?? 0) + 1);
    this.#listening.delete(name);
    if (silently) this.#dark.add(name);
    for (const pipe of [...this.#pipes]) if (pipe.joins(name)) pipe.vanish(name, silently);
  }

  /** Who connects to it is refused, as at a port where nobody listens, until {@link admit}. */
  refuse(name: string): void {
    this.#refusing.add(name);
  }

  admit(name: string): void {
    this.#refusing.delete(name);
  }

  /** Messages take this long from `one` to `other`; undefined: as elsewhere. What is on its way stays as it is. */
  slow(one: string, other: string, latencyMs: LatencyMs | undefined): void {
    if (latencyMs === undefined) this.#slow.delete(direction(one, other));
    else this.#slow.set(direction(one, other), latencyMs);
  }

  /** Breaks every channel between two nodes, as a firewall that forgets does: both are told. */
  reset(one: string, other: string): void {
    for (const pipe of [...this.#pipes]) if (pipe.joins(one) && pipe.joins(other)) pipe.break();
  }

  /** For pipes alone. */
  isCut(from: string, to: string): boolean {
    return this.#cuts.has(direction(from, to));
  }

  /** For pipes alone. */
  delayMs(from: string, to: string): number {
    const { min, max } = this.#slow.get(direction(from, to)) ?? this.#latencyMs;
    return min + (max - min) * this.#random.fraction();
  }

  /** For pipes alone. */
  doesHeal(): boolean {
    return this.#random.fraction() < 0.5;
  }

  /** For pipes alone. */
  gone(pipe: Pipe): void {
    this.#pipes.delete(pipe);
  }

  #listen(name: string, accept: Accept): Listening {
    this.#listening.set(name, accept);
    return {
      address: SCHEME + name,
      close: async () => {
        if (this.#listening.get(name) === accept) this.#listening.delete(name);
      },
    };
  }

  #connect(
    from: string,
    address: string,
    events: ChannelEvents,
    timeoutMs: number,
    isAlive: () => boolean,
  ): Promise<Channel> {
    const to = address.startsWith(SCHEME) ? address.slice(SCHEME.length) : address;
    return new Promise((resolve, reject) => {
      let pipe: Pipe | undefined;
      const fail = (why: string): void => {
        limit.cancel();
        pipe?.dialler.close(why);
        // A dead node is told nothing, not even that.
        if (isAlive()) reject(MoonportError.of("node_unreachable", `${address} ${why}`));
      };
      const limit = this.time.after(timeoutMs, () => fail(`did not answer within ${timeoutMs} ms`));
      // A cut swallows the first packet; the next one would come too late for anybody's patience.
      if (this.isCut(from, to)) return;
      this.time.after(this.delayMs(from, to), () => {
        if (!isAlive() || this.#dark.has(to) || this.isCut(from, to)) return;
        const accept = this.#refusing.has(to) ? undefined : this.#listening.get(to);
        if (accept === undefined) {
          if (!this.isCut(to, from)) this.time.after(this.delayMs(to, from), () => fail("refuses connections"));
          return;
        }
        const made = new Pipe(this, from, to);
        pipe = made;
        this.#pipes.add(made);
        made.connected(events, () => {
          limit.cancel();
          resolve(made.dialler);
        });
        made.accepted(accept);
      });
    });
  }
}

/** Both directions of one channel. */
class Pipe {
  readonly dialler: End;
  readonly #acceptor: End;
  readonly #network: SimulatedNetwork;

  constructor(network: SimulatedNetwork, from: string, to: string) {
    this.#network = network;
    const ended = (): void => {
      if (this.dialler.isDone && this.#acceptor.isDone) network.gone(this);
    };
    const there = new Direction(network, from, to);
    const back = new Direction(network, to, from);
    this.dialler = new End(from, there, ended);
    this.#acceptor = new End(to, back, ended);
    this.dialler.other = this.#acceptor;
    this.#acceptor.other = this.dialler;
  }

  get isOpen(): boolean {
    return !this.dialler.isDone && !this.#acceptor.isDone;
  }

  /** @param told runs before anything that the other side sends is heard */
  connected(events: ChannelEvents, told: () => void): void {
    this.dialler.events = events;
    this.#acceptor.out.push(0, () => {
      if (!this.dialler.isDone) told();
    });
  }

  accepted(accept: Accept): void {
    this.#acceptor.events = accept(this.#acceptor);
  }

  joins(name: string): boolean {
    return this.dialler.name === name || this.#acceptor.name === name;
  }

  vanish(name: string, silently: boolean): void {
    for (const end of [this.dialler, this.#acceptor]) if (end.name === name) end.vanish(silently);
  }

  break(): void {
    for (const end of [this.dialler, this.#acceptor])
      end.out.replace(() => end.other.closed("the connection was reset"));
  }

  healed(): void {
    const waiting = [this.dialler.out, this.#acceptor.out].filter((out) => out.isHeldUp);
    if (waiting.length === 0) return;
    if (this.#network.doesHeal()) for (const out of waiting) out.goOn();
    else this.break();
  }
}

class End implements Channel {
  readonly name: string;
  readonly out: Direction;
  readonly #ended: () => void;
  /** Set when both ends are there. */
  other!: End;
  events: ChannelEvents = { message() {}, closed() {} };
  isDone = false;
  #isTrusting = false;
  #strangeBytes = 0;

  constructor(name: string, out: Direction, ended: () => void) {
    this.name = name;
    this.out = out;
    this.#ended = ended;
  }

  get bufferedBytes(): number {
    return Math.max(0, this.out.bytes - WINDOW_BYTES);
  }

  send(message: Uint8Array): void {
    if (!this.isDone) this.out.push(message.length, () => this.other.heard(message));
  }

  trust(): void {
    this.#isTrusting = true;
  }

  close(reason: string): void {
    if (this.isDone) return;
    this.out.push(0, () => this.other.closed(reason));
    this.#done();
  }

  vanish(silently: boolean): void {
    if (this.isDone) return;
    if (!silently) this.out.push(0, () => this.other.closed("the connection was reset"));
    this.#done();
  }

  heard(message: Uint8Array): void {
    if (this.isDone) return;
    if (!this.#isTrusting) this.#strangeBytes += message.length;
    if (this.#strangeBytes > STRANGER_BYTES_MAX) {
      this.out.push(0, () => this.other.closed("a stranger sent too much"));
      this.closed("a stranger sent too much");
    } else this.#tell(() => this.events.message(new Uint8Array(message)));
  }

  closed(reason: string): void {
    if (this.isDone) return;
    this.#done();
    this.#tell(() => this.events.closed(reason));
  }

  #done(): void {
    this.isDone = true;
    this.#ended();
  }

  /** A node whose world was taken away is dead, whether or not the network was told. */
  #tell(event: () => void): void {
    try {
      event();
    } catch (error) {
      if (!(error instanceof WorldRevoked)) throw error;
      this.vanish(false);
    }
  }
}

interface Delivery {
  readonly bytes: number;
  readonly deliver: () => void;
  dueMs: number;
}

/** What is on its way from one side to the other, in order. */
class Direction {
  readonly #network: SimulatedNetwork;
  readonly #from: string;
  readonly #to: string;
  #queue: Delivery[] = [];
  #timer: Timer | undefined;
  /** Nothing more gets through. */
  #isBroken = false;
  bytes = 0;

  constructor(network: SimulatedNetwork, from: string, to: string) {
    this.#network = network;
    this.#from = from;
    this.#to = to;
  }

  /** Something waits here although its time has come, or nothing stands in its way any more. */
  get isHeldUp(): boolean {
    return this.#queue.length > 0 && this.#timer === undefined && !this.#isCut;
  }

  push(bytes: number, deliver: () => void): void {
    if (this.#isBroken) return;
    this.bytes += bytes;
    this.#queue.push({ bytes, deliver, dueMs: this.#soonest(this.#queue.at(-1)?.dueMs ?? 0) });
    if (this.#queue.length === 1) this.#arm();
  }

  /** What waits is lost; this is heard instead, cut or not. */
  replace(deliver: () => void): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#queue = [];
    this.#isBroken = true;
    this.bytes = 0;
    this.#network.time.after(this.#network.delayMs(this.#from, this.#to), deliver);
  }

  /** It was cut and is no more. */
  goOn(): void {
    let dueMs = 0;
    for (const delivery of this.#queue) {
      dueMs = this.#soonest(Math.max(dueMs, delivery.dueMs));
      delivery.dueMs = dueMs;
    }
    this.#arm();
  }

  get #isCut(): boolean {
    return this.#network.isCut(this.#from, this.#to);
  }

  #soonest(notBeforeMs: number): number {
    const { time } = this.#network;
    return Math.max(notBeforeMs, time.nowMs + this.#network.delayMs(this.#from, this.#to));
  }

  #arm(): void {
    const [first] = this.#queue;
    if (first === undefined) return;
    const { time } = this.#network;
    this.#timer = time.after(first.dueMs - time.nowMs, () => this.#deliver(first));
  }

  #deliver(first: Delivery): void {
    this.#timer = undefined;
    if (this.#isCut) return;
    this.#queue.shift();
    this.bytes -= first.bytes;
    this.#arm();
    first.deliver();
  }
}

function direction(from: string, to: string): string {
  return `${from} ${to}`;
}
