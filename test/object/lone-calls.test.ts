/** Which writes of objects say that one caller is all that the node works for. */
import { expect, test } from "vitest";
import { VirtualNode } from "../support/virtual-node.js";

/** @returns what its flights have said since this was last asked */
async function noting(): Promise<{ readonly virtual: VirtualNode; told(): boolean[] }> {
  const classes = {
    Note: `
      local Note = class "Note"
      function Note:put(text) state.store.set("text", text) end
      function Note.read:get() return state.store.get("text") end
      return Note
    `,
  };
  const virtual = await VirtualNode.start({ classes });
  let hints: boolean[] = [];
  const write = virtual.bucket.write.bind(virtual.bucket);
  virtual.bucket.write = (writes, hint?: { readonly isLone?: boolean }) => {
    if (writes.some(({ key }) => key.endsWith("/manifest"))) hints.push(hint?.isLone === true);
    return write(writes);
  };
  const told = (): boolean[] => {
    const these = hints;
    hints = [];
    return these;
  };
  return { virtual, told };
}

test("a caller's who has been alone for a few calls; of several at once nobody's", async () => {
  const { virtual, told } = await noting();
  for (let call = 0; call < 8; call++) await virtual.call("Note/a", "put", `${call}`);
  expect(told().slice(-4)).toEqual([true, true, true, true]);
  const two = [virtual.start("Note/a", "put", ["x"]), virtual.start("Note/b", "put", ["y"])];
  await virtual.time.until(Promise.all(two));
  expect(told()).not.toContain(true);
  for (let call = 0; call < 3; call++) await virtual.call("Note/b", "put", `${call}`);
  expect(told()).toEqual([false, false, false]);
  await virtual.call("Note/b", "put", "z");
  expect(told()).toEqual([true]);
});

test("not a writer's beside whom others read", async () => {
  const { virtual, told } = await noting();
  for (let call = 0; call < 8; call++) await virtual.call("Note/a", "put", `${call}`);
  told();
  for (let read = 0; read < 5; read++) await virtual.call("Note/a", "get");
  await virtual.call("Note/a", "put", "x");
  expect(told()).toEqual([false]);
});
