import { expect, it } from "vitest";
import { type LogLine, recordingLogger } from "../lua/support/fake-host.js";
import { VirtualNode } from "../support/virtual-node.js";

const Item = `
local Item = class "Item"
function Item:fall() local nothing return nothing.x end
function Item:say() log.info("hello") end
function Item.read:look() log.info("looked") end
return Item
`;

it("a class's lines and tracebacks carry the object and the call's id, a unit's its name and the request's id", async () => {
  const lines: LogLine[] = [];
  const log = recordingLogger(lines);
  const unit = 'return function() log.warn("asked") return nil + 1 end';
  const node = await VirtualNode.start({ classes: { Item }, units: { ask: unit }, log });
  lines.length = 0;
  await node.time.until(node.start("Item/a", "say", [], { callId: "call-1" }));
  await node.time.until(node.start("Item/a", "look", [], { callId: "call-2" }));
  await node.time.until(node.start("Item/none", "look", [], { callId: "call-3" }));
  await expect(node.time.until(node.start("Item/a", "fall", [], { callId: "call-4" }))).rejects.toThrow("index");
  await expect(node.time.until(node.startUnit("ask", { callId: "request-1" }))).rejects.toThrow("arithmetic");
  await node.call("Item/a", "say");
  expect(lines).toMatchObject(
    [
      { message: "hello", fields: { object: "default/Item/a", callId: "call-1" } },
      { message: "looked", fields: { object: "default/Item/a", callId: "call-2" } },
      { message: "looked", fields: { object: "default/Item/none", callId: "call-3" } },
      { level: "warn", fields: { object: "default/Item/a", callId: "call-4", traceback: /classes\/Item.lua:3/ } },
      { message: "asked", fields: { unit: "default/ask", callId: "request-1" } },
      { level: "warn", fields: { unit: "default/ask", callId: "request-1", traceback: /units\/ask.lua:1/ } },
      { message: "hello", fields: { object: "default/Item/a" } },
    ].map((line) => expectTraceback(line)),
  );
  expect(lines.at(-1)?.fields).not.toHaveProperty("callId");
});

function expectTraceback(line: { fields: { traceback?: RegExp } }): object {
  const { traceback, ...fields } = line.fields;
  return { ...line, fields: { ...fields, ...(traceback && { traceback: expect.stringMatching(traceback) }) } };
}
