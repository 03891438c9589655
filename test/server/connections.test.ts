import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, it } from "vitest";
import { Connections } from "../../src/server/connections.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";

it("a client that does not take its answer is let go, one that has nothing to take is not", async () => {
  // More than the buffers between the two hold.
  const server = createServer((request, response) => {
    response.end(request.url === "/large" ? Buffer.alloc(64 * 1024 * 1024) : "small");
  });
  const time = new VirtualTime();
  const settings = resolveSettings({ HTTP_REQUEST_MS: 1_000 });
  const connections = new Connections(server, settings, new VirtualWorld({ time, root: "/nowhere" }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const asking = (path: string): ReturnType<typeof connect> => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`));
    socket.on("error", () => {});
    return socket;
  };
  const reading = asking("/small");
  await new Promise((resolve) => reading.once("data", resolve));
  const answered = new Promise((resolve) => server.once("request", resolve));
  const idle = asking("/large").pause();
  await answered;
  expect(connections.size).toBe(2);
  await time.advance(1_000);
  expect(connections.size).toBe(2);
  await expect
    .poll(async () => {
      await time.advance(1_000);
      return connections.size;
    })
    .toBe(1);
  connections.stop();
  idle.destroy();
  reading.destroy();
  await new Promise((resolve) => server.close(resolve));
});
