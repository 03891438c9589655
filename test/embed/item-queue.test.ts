import { describe, expect, it } from "vitest";
import { ItemQueue } from "../../src/item-queue.js";

function queueOf(max = 4): { queue: ItemQueue<number>; closed: () => number } {
  let times = 0;
  const queue = new ItemQueue<number>(max, () => {
    times++;
  });
  return { queue, closed: () => times };
}

async function readAll(queue: ItemQueue<number>): Promise<number[]> {
  const items: number[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

describe("a queue of items", () => {
  it("gives what was added before the end, in order, and then ends", async () => {
    const { queue, closed } = queueOf();
    queue.push(1);
    const reading = readAll(queue);
    queue.push(2);
    queue.end();
    queue.push(3);
    expect(await reading).toEqual([1, 2]);
    expect(closed()).toBe(0);
  });

  it("throws what ended it, once, after what was there", async () => {
    const { queue } = queueOf();
    queue.push(1);
    queue.end(new Error("gone"));
    queue.end();
    expect(await queue.next()).toEqual({ done: false, value: 1 });
    await expect(queue.next()).rejects.toThrow("gone");
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  it("answers readers that ask at once in their order, and all of them at the end", async () => {
    const { queue } = queueOf();
    const asked = [queue.next(), queue.next(), queue.next()];
    queue.push(1);
    queue.push(2);
    queue.end();
    expect((await Promise.all(asked)).map(({ value }) => value)).toEqual([1, 2, undefined]);
  });

  it("is closed by a reader that leaves, once, and drops what was not read", async () => {
    const { queue, closed } = queueOf();
    queue.push(1);
    queue.push(2);
    for await (const item of queue) if (item === 1) break;
    queue.close();
    expect(closed()).toBe(1);
    expect(await readAll(queue)).toEqual([]);
  });

  it("is full at its bound and says when half of it is free again", async () => {
    const { queue } = queueOf(2);
    queue.push(1);
    expect([queue.isFull, queue.room()]).toEqual([false, undefined]);
    queue.push(2);
    expect(queue.isFull).toBe(true);
    let hasRoom = false;
    const room = queue.room()?.then(() => {
      hasRoom = true;
    });
    await Promise.resolve();
    expect(hasRoom).toBe(false);
    await queue.next();
    await room;
    expect(hasRoom).toBe(true);
  });

  it("keeps nobody waiting for room once it has ended", async () => {
    const { queue } = queueOf(1);
    queue.push(1);
    const room = queue.room();
    queue.close();
    await room;
    expect(queue.room()).toBeUndefined();
  });

  it("holds only the last of values that replace each other", async () => {
    const { queue } = queueOf();
    queue.replace(1);
    queue.replace(2);
    expect(await queue.next()).toEqual({ done: false, value: 2 });
    const next = queue.next();
    queue.replace(3);
    expect(await next).toEqual({ done: false, value: 3 });
  });
});
