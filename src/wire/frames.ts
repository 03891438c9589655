/**
 * The frames of a WebSocket, the same objects in both codecs (`moonport.v1+json`: text, `moonport.v1+msgpack`: binary).
 *
 * The client numbers what it asks (`id`, a whole number, unique among what is under way on the socket); answers and what
 * goes on carry that number. Bytes are `{"$bytes": base64}` in JSON and binary in msgpack.
 */
import type { DelayFilter, SendRequest, SendTime } from "../delay/contract.js";
import type { DirectoryQuery } from "../lua/contract.js";
import type { Consistency, ServingNode } from "../node-api.js";
import type { EndReason, ReadingCall, SubscribeFrom } from "../realtime/contract.js";
import type { PlainValue } from "../values.js";
import type { Problem } from "./problem.js";

export const JSON_PROTOCOL = "moonport.v1+json";
export const MSGPACK_PROTOCOL = "moonport.v1+msgpack";

/** Which object a frame speaks of. `app` is `default` when left out. */
export interface FrameTarget {
  readonly app?: string;
  readonly class: string;
  readonly key: string;
}

/** When a command is to be delivered, and how; times are wall clock, milliseconds. */
export interface CommandFields extends SendTime, Pick<SendRequest, "id" | "expiresMs" | "missed"> {
  readonly outcome?: { readonly class: string; readonly key: string } & (
    | { readonly method: string }
    | { readonly event: string }
  );
}

export type DelayAsk =
  | { readonly kind: "list"; readonly filter?: DelayFilter }
  | { readonly kind: "get" | "cancel" | "retry"; readonly command: string }
  | { readonly kind: "move"; readonly command: string; readonly time: SendTime };

export type ClientFrame =
  /** The first frame, always: browsers cannot set headers on a socket. */
  | { readonly type: "hello"; readonly token?: string }
  | ({
      readonly type: "call";
      readonly id: number;
      readonly method: string;
      readonly args?: readonly PlainValue[];
      readonly callId?: string;
      readonly timeoutMs?: number;
      readonly consistency?: Consistency;
    } & FrameTarget)
  /** A query of a class's directory; its reply is a page. */
  | {
      readonly type: "find";
      readonly id: number;
      readonly app?: string;
      readonly class: string;
      readonly query?: DirectoryQuery;
      readonly timeoutMs?: number;
    }
  /** Has a method called later, exactly once; its reply is `{ id }`, the command's. */
  | ({
      readonly type: "send";
      readonly id: number;
      readonly method: string;
      readonly args?: readonly PlainValue[];
      readonly command?: CommandFields;
      readonly timeoutMs?: number;
    } & FrameTarget)
  /** An object's timers and their last runs. */
  | ({ readonly type: "timers"; readonly id: number; readonly timeoutMs?: number } & FrameTarget)
  /** What is asked of delayed commands. */
  | { readonly type: "delay"; readonly id: number; readonly ask: DelayAsk; readonly timeoutMs?: number }
  /** The caller does not wait any longer; a call that has not begun is not run. No answer follows. */
  | { readonly type: "cancel"; readonly id: number }
  | ({
      readonly type: "subscribe";
      readonly id: number;
      readonly from?: SubscribeFrom;
      readonly names?: readonly string[];
      readonly snapshotAfterGap?: ReadingCall;
    } & FrameTarget)
  | ({
      readonly type: "view";
      readonly id: number;
      readonly method: string;
      readonly args?: readonly PlainValue[];
    } & FrameTarget)
  /** Ends a subscription or a view. No answer follows. */
  | { readonly type: "unsubscribe"; readonly id: number }
  | { readonly type: "ping"; readonly n?: number };

export type ServerFrame =
  | { readonly type: "welcome"; readonly session: string; readonly version: string }
  | {
      readonly type: "reply";
      readonly id: number;
      readonly value: PlainValue;
      readonly seq?: number;
      readonly from?: "replica";
      /** That owns the object, where the node on the socket had to ask it. */
      readonly node?: ServingNode;
    }
  /** A call that failed, or a subscription or view that was refused. */
  | { readonly type: "error"; readonly id: number; readonly error: Problem }
  | { readonly type: "subscribed"; readonly id: number; readonly after: number }
  | { readonly type: "snapshot"; readonly id: number; readonly value: PlainValue; readonly number: number }
  | {
      readonly type: "event";
      readonly id: number;
      readonly number: number;
      readonly name: string;
      readonly data: PlainValue;
      readonly atMs: number;
    }
  | { readonly type: "gap"; readonly id: number; readonly from: number; readonly first: number }
  | { readonly type: "view"; readonly id: number; readonly value: PlainValue; readonly seq: number }
  | { readonly type: "view_failed"; readonly id: number; readonly error: Problem }
  /** The node is about to stop, and still answers: others, at `nodes`, take over what lives on it. */
  | { readonly type: "leaving"; readonly nodes: readonly string[] }
  | { readonly type: "ended"; readonly id: number; readonly reason: EndReason; readonly after: number }
  | { readonly type: "pong"; readonly n?: number };

/** Where a node answers. */
export const SOCKET_PATH = "/v1/socket";

/**
 * Why a node closes a socket. The reason text begins with the name here, a colon, and says what was wrong. Beside them stand
 * RFC 6455's own: 1002 for what is no WebSocket frame, 1007 for text that is not UTF-8.
 */
export const CLOSE_CODES = {
  /** The node is stopping: connect again. */
  stopping: 1001,
  /** A frame over SOCKET_FRAME_BYTES_MAX. Without a reason text. */
  too_large: 1009,
  /** A frame that cannot be read, or one out of order. */
  bad_frame: 4400,
  unauthenticated: 4401,
  /** No hello within its time. */
  hello_timeout: 4408,
  /** The client does not read: its buffer is full. Connect again and resume. */
  slow: 4429,
  /** No pong within its time: the other side is gone. */
  dead: 4499,
} as const;
