/**
 * The platform made of what Node and browsers have in common: their clocks, timers and randomness, and a WebSocket class with
 * the interface that browsers have. The one file of the client that touches any of them.
 */
import type { ClientPlatform, PlatformTimer, Socket, SocketEvents } from "./platform.js";

/** As much of the browsers' WebSocket as is used here; the class of `ws` has it too. */
interface WebSocketLike {
  binaryType: string;
  readonly protocol: string;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  send(data: string | Uint8Array): void;
  close(code?: number): void;
}

export type WebSocketMaker = (url: string, protocol: string) => WebSocketLike;

/** The platforms' timers overflow beyond 2^31-1 ms and then fire at once; no wait of the client comes near. */
const DELAY_MAX_MS = 2_000_000_000;
const CLOSE_NORMAL = 1_000;
/** What WebSocket implementations report for a connection that ended without a word. */
const CLOSE_ABNORMAL = 1_006;

export function platformOf(makeWebSocket: WebSocketMaker): ClientPlatform {
  return {
    clock: { wallMs: () => Date.now(), monotonicMs: () => performance.now() },
    random: { fraction: () => Math.random(), bytes: pooledBytes() },
    timers: { after },
    openSocket: (url, protocol, events) => openSocket(makeWebSocket, url, protocol, events),
  };
}

/** Every call has an id: one draw from the platform serves many of them. */
const POOL_BYTES = 4_096;

function pooledBytes(): (count: number) => Uint8Array {
  let pool = new Uint8Array(0);
  let used = 0;
  return (count) => {
    if (count > POOL_BYTES) return crypto.getRandomValues(new Uint8Array(count));
    if (used + count > pool.length) {
      pool = crypto.getRandomValues(new Uint8Array(POOL_BYTES));
      used = 0;
    }
    used += count;
    return pool.slice(used - count, used);
  };
}

function after(delayMs: number, callback: () => void): PlatformTimer {
  const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), DELAY_MAX_MS));
  return { cancel: () => clearTimeout(handle) };
}

function openSocket(make: WebSocketMaker, url: string, protocol: string, events: SocketEvents): Socket {
  let socket: WebSocketLike;
  try {
    socket = make(url, protocol);
  } catch (error) {
    // A page may not open this URL at all (mixed content, a blocked port). Told like any other failure, and not from in here.
    const refused = after(0, () => events.closed(CLOSE_ABNORMAL, messageOf(error)));
    return { send: () => {}, drop: () => refused.cancel() };
  }
  let failure = "";
  socket.binaryType = "arraybuffer";
  socket.onopen = () => events.opened(socket.protocol);
  socket.onmessage = ({ data }: { data: string | ArrayBuffer }) => {
    events.received(typeof data === "string" ? data : new Uint8Array(data));
  };
  // Always followed by close; without a listener Node would end the process.
  socket.onerror = (event: { message?: string }) => {
    failure = event.message ?? "";
  };
  socket.onclose = ({ code, reason }: { code: number; reason: string }) => events.closed(code, reason || failure);
  return {
    send: (data) => socket.send(data),
    drop: () => {
      socket.onopen = null;
      socket.onmessage = null;
      socket.onclose = null;
      socket.close(CLOSE_NORMAL);
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
