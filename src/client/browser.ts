/** `moonport/client` in browsers, and wherever else there is a WebSocket of the platform's own. */
import { MoonportClient } from "./client.js";
import type { ConnectOptions } from "./options.js";
import { platformOf, type WebSocketMaker } from "./platform-globals.js";

declare const WebSocket: new (...args: Parameters<WebSocketMaker>) => ReturnType<WebSocketMaker>;

const platform = platformOf((url, protocol) => new WebSocket(url, protocol));

/**
 * Begins to connect, and stays connected until {@link MoonportClient.close}.
 * @param urls `ws://127.0.0.1:7070`, or several nodes of one fleet: whichever answers
 * @throws MoonportError `bad_option`
 */
export function connect(urls: string | readonly string[], options: ConnectOptions = {}): MoonportClient {
  return new MoonportClient(urls, options, platform);
}

export { MoonportError } from "../errors.js";
