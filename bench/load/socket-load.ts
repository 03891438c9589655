/** Calls over WebSockets by the light client: one for all, or one for each call in flight. */
import { pack } from "msgpackr";
import { MSGPACK_PROTOCOL, SOCKET_PATH } from "../../src/wire/frames.js";
import { CallFrames, replyId } from "./call-frames.js";
import { LineLoad, socketLine } from "./line-load.js";
import type { LoadSpec } from "./load.js";
import { clientFrame, RawSocket } from "./raw-socket.js";

export async function openSocketLoad(spec: LoadSpec): Promise<LineLoad> {
  const hasOneEach = spec.door === "ws each";
  const frames = new CallFrames(spec);
  const lines = await Promise.all(
    Array.from({ length: hasOneEach ? spec.inFlight : 1 }, async () => {
      const socket = await greeted(`${spec.url.replace("http", "ws")}${SOCKET_PATH}`);
      return socketLine(socket, (id, index) => frames.next(id, index), replyId);
    }),
  );
  return new LineLoad(lines, hasOneEach ? 1 : spec.inFlight);
}

async function greeted(url: string): Promise<RawSocket> {
  const socket = await RawSocket.open(url, MSGPACK_PROTOCOL);
  await new Promise<void>((resolve, reject) => {
    socket.listen({ message: () => resolve(), readDone: () => {}, failed: reject });
    socket.send(clientFrame(pack({ type: "hello" })));
  });
  return socket;
}
