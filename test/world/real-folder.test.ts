import { expect, it } from "vitest";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";

it("a file that is closed is read no more and closed once, whatever has its descriptor by now", () => {
  const folder = new RealFolder(temporaryFolder());
  for (const name of ["one", "other"]) folder.replaceFile(name, Buffer.from(name));
  const one = folder.open("one", "update");
  one.close();
  const other = folder.open("other", "read");
  const target = new Uint8Array(5);
  expect(() => one.read(target, 0, 5, 0)).toThrow(expect.objectContaining({ code: "storage_failed" }));
  expect(() => one.write(target, 0)).toThrow(expect.objectContaining({ code: "storage_failed" }));
  expect(() => one.sizeBytes()).toThrow("it is closed");
  one.close();
  expect(other.read(target, 0, 5, 0)).toBe(5);
  expect(Buffer.from(target).toString()).toBe("other");
  other.close();
});
