/** What stands between a simulated process and the world outside: while it is stopped, or dead, nothing reaches it. */
import type { Bucket } from "../bucket/bucket.js";
import type { ChannelEvents, Network } from "../links/contract.js";
import type { VirtualWorld } from "../testing/virtual-world.js";

/** Answers reach a process that runs, or never. It is started and stopped by whoever made it. */
export function bucketOf(world: VirtualWorld, bucket: Bucket): Bucket {
  const arriving = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      return await answer;
    } finally {
      await world.running();
      // A process that died meanwhile hears nothing any more.
      if (world.revoked) await new Promise(() => {});
    }
  };
  const { bulk, marks } = bucket;
  return {
    name: bucket.name,
    atomic: bucket.atomic,
    bulk: bulk && {
      get: (keys) => arriving(bulk.get(keys)),
      write: (batches) => arriving(bulk.write(batches)),
    },
    marks,
    start: async () => {},
    stop: async () => {},
    get: (key) => arriving(bucket.get(key)),
    write: (writes) => arriving(bucket.write(writes)),
    writeStream: (key, parts) => arriving(bucket.writeStream(key, parts)),
    readStream: (key) => arriving(bucket.readStream(key)),
    list: (prefix, options) => arriving(bucket.list(prefix, options)),
    delete: (keys) => arriving(bucket.delete(keys)),
  };
}

/** Messages wait, in order, for the process to go on. */
export function networkOf(world: VirtualWorld, network: Network): Network {
  const whenRunning = (events: ChannelEvents): ChannelEvents => ({
    message: (message) => inTurn(world, () => events.message(message)),
    closed: (reason) => inTurn(world, () => events.closed(reason)),
  });
  return {
    connect: async (address, events, timeoutMs) => {
      const channel = await network.connect(address, whenRunning(events), timeoutMs);
      await world.running();
      return channel;
    },
    listen: (accept) => network.listen((channel) => whenRunning(accept(channel))),
  };
}

function inTurn(world: VirtualWorld, run: () => void): void {
  if (!world.revoked) world.timers.soon(run);
}
