/** Calls over one WebSocket by the light client. */
import { pack } from "msgpackr";
import { MSGPACK_PROTOCOL, SOCKET_PATH } from "../../src/wire/frames.js";
import { CallFrames, replyId } from "./call-frames.js";
import { LineLoad, socketLine } from "./line-load.js";
import type { LoadSpec } from "./load.js";
import { clientFrame, RawSocket } from "./raw-socket.js";

export async function openSocketLoad(spec: LoadSpec): Promise<LineLoad> {
  const socket = await RawSocket.open(`${spec.url.replace("http", "ws")}${SOCKET_PATH}`, MSGPACK_PROTOCOL);
  await new Promise<void>((resolve, reject) => {
    socket.listen({ message: () => resolve(), readDone: () => {}, failed: reject });
    socket.send(clientFrame(pack({ type: "hello" })));
  });
  const frames = new CallFrames(spec);
  return new LineLoad([socketLine(socket, (id, index) => frames.next(id, index), replyId)], spec.inFlight);
}
