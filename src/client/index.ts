/** `moonport/client` in Node, which has no WebSocket of its own before version 22. */
import { MoonportClient } from "./client.js";
import type { ConnectOptions } from "./options.js";
import { platformOf } from "./platform-globals.js";
import { TurnSocket } from "./turn-socket.js";

const platform = platformOf((url, protocol) => new TurnSocket(url, protocol));

/**
 * Begins to connect, and stays connected until {@link MoonportClient.close}.
 * @param urls `ws://127.0.0.1:7070`, or several nodes of one fleet: whichever answers
 * @throws MoonportError `bad_option`
 */
export function connect(urls: string | readonly string[], options: ConnectOptions = {}): MoonportClient {
  return new MoonportClient(urls, options, platform);
}

export type {
  ChangedAnswer,
  CommandInfo,
  CommandState,
  DelayedCommand,
  DelayFilter,
  ObjectTimers,
  RunRecord,
  SendTime,
  TimerDetails,
} from "../delay/contract.js";
export { type ErrorCode, MoonportError } from "../errors.js";
export type { FoundPage, FoundRow } from "../node-api.js";
export type { PlainObject, PlainValue } from "../values.js";
export type { MoonportClient } from "./client.js";
export type { ClientDelay } from "./client-delay.js";
export type { FindOptions, FindQuery } from "./find.js";
export type { ClientState } from "./link.js";
export type {
  AnyMethods,
  CallOptions,
  ObjectHandle,
  RemoteObject,
  Snapshot,
  SubscribeOptions,
  ViewOptions,
} from "./object-handle.js";
export type { ConnectOptions } from "./options.js";
export type { SendOptions, SendOutcome, Sent } from "./send.js";
export type { Subscription, SubscriptionItem } from "./subscription.js";
export type { View } from "./view.js";
