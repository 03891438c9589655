/**
 * A proxy before an S3 server that does to chosen requests what networks do: it loses answers, cuts connections at a
 * chosen place, delays, trickles, or answers in the server's stead.
 *
 * Everything else passes untouched, so signatures stay valid: the host header is the client's own. A request that no fault
 * matches is forwarded as it comes, with its body streamed; connections are kept alive, and `Expect: 100-continue` is the
 * server's to answer. A fault armed by `next` that no request met makes `stop` fail: such a test has tested nothing.
 */
import type { S3RequestKind } from "./s3-request-kind.js";

export type Fault =
  /** The server has answered in full; the client's connection is cut before any byte of it. */
  | { readonly kind: "answer_lost" }
  /** The whole request is read, never forwarded, and the connection cut. */
  | { readonly kind: "write_lost" }
  /** The whole request is forwarded, and the connection cut while the server is still at it. */
  | { readonly kind: "reset_before_headers" }
  /** The connection is cut at once; the request reaches the server only when `until` resolves. */
  | { readonly kind: "lands_late"; readonly until: Promise<void> }
  /** Cut on both sides when this many bytes of the body have passed. */
  | { readonly kind: "reset_in_request_body"; readonly afterBytes: number }
  /** Only the status line of the server's answer arrives. */
  | { readonly kind: "reset_after_status_line" }
  /** Headers and this many bytes of the answer's body arrive. */
  | { readonly kind: "reset_in_response_body"; readonly afterBytes: number }
  /** An answer of the proxy's own. The request is forwarded first where `forwards` is set. */
  | ({ readonly kind: "replaced"; readonly forwards?: boolean } & ReplacedAnswer)
  /** The answer's body comes in pieces of `chunkBytes`, one every `everyMs`. */
  | { readonly kind: "slow_body"; readonly chunkBytes: number; readonly everyMs: number }
  /** Forwarded after this time. */
  | { readonly kind: "latency"; readonly ms: number }
  /** Read, and never answered. Forwarded all the same where `forwards` is set. */
  | { readonly kind: "black_hole"; readonly forwards?: boolean };

export interface ReplacedAnswer {
  readonly status: number;
  /** Code of the S3 error document; without it the body is empty. */
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ProxiedRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly kind: S3RequestKind;
  readonly bucket: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The fault it met. */
  readonly fault?: Fault["kind"];
}

/** A kind, or a question asked of the request. */
export type RequestMatch = S3RequestKind | "any" | ((request: ProxiedRequest) => boolean);

export interface ArmedFault {
  /** Resolves when a request has met it. */
  readonly struck: Promise<ProxiedRequest>;
  disarm(): void;
}

export interface FaultProxy {
  readonly port: number;
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string;
  /** As they came. */
  readonly requests: readonly ProxiedRequest[];
  /** Strikes the next request that matches, once; several armed at once strike in the order of arming. */
  next(match: RequestMatch, fault: Fault): ArmedFault;
  /** Strikes every request that matches and that no `next` has taken, until the function given back is called. */
  always(match: RequestMatch, fault: Fault): () => void;
  /** Cuts every connection and refuses new ones; the function given back ends that. */
  refuseConnections(): Promise<() => Promise<void>>;
  /** @throws Error naming the faults of `next` that struck nothing */
  stop(): Promise<void>;
}

export interface FaultProxyOptions {
  /** Where the requests go. */
  readonly target: { readonly host: string; readonly port: number };
}

export function startFaultProxy(_options: FaultProxyOptions): Promise<FaultProxy> {
  throw new Error("not built yet");
}
