/** A door on a free port over a fake node, and raw requests that no URL parser has tidied. */
import http from "node:http";
import net from "node:net";
import { HttpDoor, type HttpDoorOptions } from "../../src/server/http-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { FakeNode } from "../support/fake-node.js";

export interface OpenDoor {
  readonly node: FakeNode;
  readonly door: HttpDoor;
  readonly url: string;
  readonly port: number;
}

export interface RawReply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  readonly json: Record<string, unknown>;
}

export const world = realWorld("/nowhere", silentLogger);

export async function openDoor(
  settings: Record<string, number> = {},
  more: Partial<HttpDoorOptions> = {},
): Promise<OpenDoor> {
  const node = new FakeNode();
  const door = new HttpDoor({ node, settings: resolveSettings(settings), world, host: "127.0.0.1", port: 0, ...more });
  const { url } = await door.start();
  return { node, door, url, port: Number(new URL(url).port) };
}

export function ask(
  port: number,
  method: string,
  path: string,
  body?: string | Uint8Array,
  headers: http.OutgoingHttpHeaders = {},
): Promise<RawReply> {
  // Of a GET with a body the length would not be sent, and the body would be taken for another request.
  const type =
    body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = http.request({
      host: "127.0.0.1",
      port,
      method,
      path,
      headers: { ...type, ...headers },
      agent: false,
    });
    request.on("error", reject);
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text += part;
      });
      response.on("end", () => {
        const json = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
      });
    });
    request.end(body);
  });
}

/** Sends bytes as they are and returns what comes back until the other side closes, or `isEnough` says so. */
export function rawExchange(
  port: number,
  bytes: string | Uint8Array,
  isEnough: (answer: string) => boolean = () => false,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = net.connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.setEncoding("utf8");
    socket.on("data", (part: string) => {
      text += part;
      if (isEnough(text)) socket.destroy();
    });
    socket.on("close", () => resolve(text));
    socket.on("error", reject);
  });
}
