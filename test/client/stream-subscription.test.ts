/** The client of event streams against a real node, through a line that is cut. */
import net from "node:net";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { MemoryContents } from "../../src/bucket/memory-contents.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { SubscribeRequest } from "../../src/realtime/contract.js";
import type { PlainValue } from "../../src/values.js";
import { classes } from "../realtime/log-class.js";
import { RecordingSink } from "../realtime/support.js";
import { world } from "../server/door.js";
import { type ServedNode, serveNode } from "../support/event-streams.js";

const object = identityOf("default", "Log", "a");
const request = (more: Partial<SubscribeRequest> = {}): SubscribeRequest => ({
  object,
  from: { kind: "now" },
  caller: { kind: "client" },
  ...more,
});

/** Pauses between tries are short here; how long a silent line is trusted is not. */
const PAUSE_MAX_MS = 10_000;
const after = (delayMs: number, run: () => void): ReturnType<typeof world.timers.after> =>
  world.timers.after(delayMs < PAUSE_MAX_MS ? 2 : delayMs, run);
const hurried = { ...world, timers: { ...world.timers, after } };

function clientOf(url: string, at: Pick<typeof world, "clock" | "random" | "timers"> = world): HttpNodeClient {
  const client = new HttpNodeClient({ url, world: at });
  onTestFinished(() => client.close());
  return client;
}

async function call({ node }: ServedNode, method: string, ...args: PlainValue[]): Promise<void> {
  await node.call({ object, method, args, caller: { kind: "client" } });
}

/** Resolves once the sink was told something that `wanted` accepts. */
async function until(sink: RecordingSink, wanted: (story: readonly string[]) => boolean): Promise<void> {
  while (!wanted(sink.story)) await new Promise((resolve) => world.timers.after(1, () => resolve(undefined)));
}

/** A line to a node that breaks after so many bytes of each connection. */
class Line {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  cutAfterBytes = Number.POSITIVE_INFINITY;
  connections = 0;

  constructor(to: () => number) {
    this.#server = net.createServer((near) => {
      this.connections++;
      const far = net.connect(to(), "127.0.0.1");
      let left = this.cutAfterBytes;
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          near.destroy();
          far.destroy();
          this.#sockets.delete(socket);
        });
      }
      near.pipe(far);
      far.on("data", (bytes: Buffer) => {
        near.write(bytes.subarray(0, left));
        left -= bytes.length;
        if (left <= 0) near.end(() => near.destroy());
      });
    });
  }

  open(): Promise<string> {
    onTestFinished(() => this.close());
    return new Promise((resolve) => {
      this.#server.listen(0, "127.0.0.1", () =>
        resolve(`http://127.0.0.1:${(this.#server.address() as net.AddressInfo).port}`),
      );
    });
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }
}

describe("a subscription over HTTP", () => {
  it("tells its sink what the hub would", async () => {
    const served = await serveNode({ classes, settings: { EVENT_ROWS_MAX: 10 } });
    const client = clientOf(served.doors.url);
    const sink = new RecordingSink();
    const subscription = await client.subscribe(request({ names: ["said", "finished", "a,b"] }), sink);
    await until(sink, (story) => story.length === 1);
    await call(served, "say", new Uint8Array([1]));
    await call(served, "whisper", "passed over");
    await call(served, "many", 1, "a,b");
    await call(served, "finish");
    await until(sink, (story) => story.some((line) => line.startsWith("ended")));
    expect(sink.story).toEqual([
      "subscribed 0",
      "event 1 said",
      "event 3 a,b",
      "event 4 finished",
      "ended destroyed after 4",
    ]);
    expect(sink.events[0]).toMatchObject({ data: new Uint8Array([1]), atMs: expect.any(Number) });
    expect(subscription.after).toBe(4);
    await call(served, "many", 124);
    const late = new RecordingSink();
    const snapshotAfterGap = { method: "plus", args: [1] };
    const second = await client.subscribe(request({ from: { kind: "after", number: 7 }, snapshotAfterGap }), late);
    await until(late, (story) => story.length === 3);
    expect(late.story).toEqual(["subscribed 7", "gap 8 to 118", "snapshot 125 at 128"]);
    second.close();
    const fresh = new RecordingSink();
    const reading = { method: "plus", args: [2] };
    const third = await client.subscribe(request({ from: { kind: "snapshot", reading } }), fresh);
    await until(fresh, (story) => story.length === 2);
    expect(fresh.story).toEqual(["snapshot 126 at 128", "subscribed 128"]);
    third.close();
  });

  it("is refused with the node's own error, or told that nobody is there", async () => {
    const served = await serveNode({ classes });
    const client = clientOf(served.doors.url);
    const codeOf = (more: Partial<SubscribeRequest>): Promise<string> =>
      client.subscribe(request(more), new RecordingSink()).then(
        () => "none",
        (error: unknown) => (error instanceof MoonportError ? error.code : String(error)),
      );
    expect(await codeOf({ object: identityOf("default", "Lag", "a") })).toBe("class_not_found");
    expect(await codeOf({ from: { kind: "snapshot", reading: { method: "plus", args: ["x"] } } })).toBe("method_error");
    await served.stop();
    expect(await codeOf({})).toBe("node_unreachable");
  });

  it("loses and doubles nothing, wherever its connections are cut", async () => {
    const served = await serveNode({ classes });
    const line = new Line(() => served.port);
    const client = clientOf(await line.open(), hurried);
    let count = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 300, max: 900 }), { minLength: 1, maxLength: 6 }), async (cuts) => {
        const first = count;
        const sink = new RecordingSink();
        const subscription = await client.subscribe(request({ from: { kind: "after", number: first } }), sink);
        for (const bytes of cuts) {
          line.cutAfterBytes = bytes;
          line.cut();
          await call(served, "many", 5);
          count += 5;
          // Long enough for a connection or two to come up and break.
          await new Promise((resolve) => world.timers.after(8, () => resolve(undefined)));
        }
        line.cutAfterBytes = Number.POSITIVE_INFINITY;
        line.cut();
        await until(sink, () => sink.numbers.at(-1) === count);
        expect(sink.numbers).toEqual(Array.from({ length: count - first }, (_, index) => first + 1 + index));
        expect(sink.story.filter((one) => one.startsWith("subscribed"))).toEqual([`subscribed ${first}`]);
        subscription.close();
      }),
      { numRuns: 25 },
    );
  });

  it("follows its node to another address", async () => {
    const contents = new MemoryContents();
    let served = await serveNode({ classes, contents });
    const client = clientOf(served.doors.url, hurried);
    const sink = new RecordingSink();
    const causes: string[] = [];
    const subscription = await client.subscribe(request(), sink, {
      address: async () => served.doors.url,
      interrupted: (cause) => void causes.push(cause.code),
    });
    await call(served, "say", "one");
    await until(sink, (story) => story.length === 2);
    await served.stop();
    served = await serveNode({ classes, contents });
    await call(served, "say", "two");
    await until(sink, (story) => story.length === 3);
    expect(sink.story).toEqual(["subscribed 0", "event 1 said", "event 2 said"]);
    expect(new Set(causes)).toEqual(new Set(["node_unreachable"]));
    subscription.close();
  });

  it("ends when what it asks for is refused for good", async () => {
    const contents = new MemoryContents();
    let served = await serveNode({ classes, contents });
    const client = clientOf(served.doors.url, hurried);
    const sink = new RecordingSink();
    await client.subscribe(request(), sink, { address: async () => served.doors.url });
    await until(sink, (story) => story.length === 1);
    await served.stop();
    served = await serveNode({ classes: {}, contents });
    await until(sink, (story) => story.length === 2);
    expect(sink.told[1]).toMatchObject({
      kind: "ended",
      reason: "failed",
      after: 0,
      error: { code: "class_not_found" },
    });
  });

  it("waits for a sink without room instead of filling memory, and for nobody once it is closed", async () => {
    const served = await serveNode({ classes, settings: { SOCKET_BUFFER_BYTES_MAX: 16 * 1024 } });
    const client = clientOf(served.doors.url);
    const text = "x".repeat(500_000);
    for (let said = 0; said < 30; said++) await call(served, "say", text);
    const sink = new RecordingSink();
    sink.block();
    const subscription = await client.subscribe(request({ from: { kind: "after", number: 0 } }), sink);
    await new Promise((resolve) => world.timers.after(50, () => resolve(undefined)));
    expect(sink.events.length).toBeLessThan(5);
    sink.unblock();
    await until(sink, () => sink.numbers.at(-1) === 30);
    subscription.close();
    while ((await served.node.status()).subscriptions > 0) await new Promise((resolve) => setImmediate(resolve));
  });
});

it("a stream that cannot be opened leaves no timer behind, whether nobody listens or the node refuses", async () => {
  const running = new Set<object>();
  const counting = (delayMs: number, run: () => void): ReturnType<typeof world.timers.after> => {
    const timer = world.timers.after(delayMs, run);
    const counted = {
      cancel: () => {
        running.delete(counted);
        timer.cancel();
      },
    };
    running.add(counted);
    return counted;
  };
  const at = { ...world, timers: { ...world.timers, after: counting } };
  const served = await serveNode({ classes });
  const open = (url: string, of: SubscribeRequest) => clientOf(url, at).subscribe(of, new RecordingSink());
  const unknown = request({ object: identityOf("default", "Nobody", "a") });
  await expect(open(`http://127.0.0.1:${served.port}`, unknown)).rejects.toMatchObject({ code: "class_not_found" });
  await served.stop();
  await expect(open(`http://127.0.0.1:${served.port}`, request())).rejects.toMatchObject({ code: "node_unreachable" });
  expect(running.size).toBe(0);
});
