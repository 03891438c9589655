/** Bundles: the same files make the same bytes, and nothing else gets in or out. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bundleOf, decodeBundle, filesOf, sourceOf } from "../../src/release/bundle.js";
import type { ReleaseFile } from "../../src/release/contract.js";
import { resolveSettings } from "../../src/settings/settings.js";

const limits = resolveSettings({ RELEASE_BYTES_MAX: 2_048, RELEASE_FILES_MAX: 12 });

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,8}$/);
const pathOf = fc.oneof(
  name.map((one) => `classes/${one}.lua`),
  name.map((one) => `units/${one}.lua`),
  fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => `lib/${parts.join("/")}.lua`),
);
const text = fc.string({ unit: "binary", maxLength: 40 });
const someFiles = fc.uniqueArray(fc.record({ path: pathOf, text }), {
  minLength: 1,
  maxLength: 12,
  selector: ({ path }) => path,
});

function codeOf(run: () => unknown): unknown {
  try {
    run();
    return undefined;
  } catch (error) {
    return (error as { code?: string }).code;
  }
}

describe("a bundle", () => {
  it("comes back as it was, and does not depend on the order of its files", () => {
    fc.assert(
      fc.property(someFiles, fc.infiniteStream(fc.nat()), (files, numbers) => {
        const bundle = bundleOf(files, limits);
        const shuffled = files
          .map((file) => ({ file, at: numbers.next().value as number }))
          .sort((left, right) => left.at - right.at)
          .map(({ file }) => file);
        expect(bundleOf(shuffled, limits).id).toBe(bundle.id);
        const back = decodeBundle(bundle.id, bundle.bytes);
        expect(back.files).toEqual(bundle.files);
        expect(new Map(back.files.map((file) => [file.path, file.text]))).toEqual(
          new Map(files.map((file) => [file.path, file.text])),
        );
      }),
    );
  });

  it("has another hash as soon as a sign of it is another", () => {
    const file = (text: string): ReleaseFile[] => [{ path: "classes/A.lua", text }];
    expect(bundleOf(file("a"), limits).id).not.toBe(bundleOf(file("b"), limits).id);
    expect(bundleOf(file(""), limits).id).not.toBe(bundleOf([{ path: "classes/B.lua", text: "" }], limits).id);
  });

  it("of which a byte was changed is refused, whichever", () => {
    fc.assert(
      fc.property(someFiles, fc.nat(), fc.integer({ min: 1, max: 255 }), (files, at, change) => {
        const { id, bytes } = bundleOf(files, limits);
        const broken = Uint8Array.from(bytes);
        const place = at % broken.length;
        broken[place] = (broken[place] ?? 0) ^ change;
        expect(codeOf(() => decodeBundle(id, broken))).toBe("release_damaged");
      }),
    );
  });

  it("that was made by somebody else is checked as if it came from a door", async () => {
    const { createHash } = await import("node:crypto");
    const documents = [
      "",
      "null",
      "[]",
      '{"format":1}',
      '{"format":2,"files":[["classes/A.lua",""]]}',
      '{"format":1,"files":[]}',
      '{"format":1,"files":[["../A.lua",""]]}',
      '{"format":1,"files":[["classes/A.lua"]]}',
      '{"format":1,"files":[{"path":"classes/A.lua","text":""}]}',
      '{"format":1,"files":[["classes/A.lua","\\ud800"]]}',
    ];
    for (const document of documents) {
      const bytes = Buffer.from(document);
      const id = createHash("sha256").update(bytes).digest("hex");
      expect([document, codeOf(() => decodeBundle(id, bytes))]).toEqual([document, "release_damaged"]);
    }
  });

  it("may be read by a node whose bounds are narrower than those of the node that deployed it", () => {
    const wide = resolveSettings();
    const { id, bytes } = bundleOf([{ path: "classes/A.lua", text: "x".repeat(5_000) }], wide);
    expect(decodeBundle(id, bytes).files).toHaveLength(1);
  });
});

describe("what is no release", () => {
  const refused: Readonly<Record<string, ReleaseFile[]>> = {
    "has no files": [],
    "climbs out": [{ path: "classes/../../etc/passwd.lua", text: "" }],
    "climbs out of lib": [{ path: "lib/../classes/A.lua", text: "" }],
    "starts at the root": [{ path: "/classes/A.lua", text: "" }],
    "uses the other slash": [{ path: "classes\\A.lua", text: "" }],
    "names a folder within classes": [{ path: "classes/a/A.lua", text: "" }],
    "names another folder": [{ path: "tests/A.lua", text: "" }],
    "names no Lua file": [{ path: "classes/A.txt", text: "" }],
    "has no name": [{ path: "classes/.lua", text: "" }],
    "has dots in its name": [{ path: "classes/A.B.lua", text: "" }],
    "has a sign in its name that no file should have": [{ path: "classes/A\u0000.lua", text: "" }],
    "would set a prototype": [{ path: "classes/__proto__.lua", text: "" }],
    "would set a prototype by a folder": [{ path: "lib/__proto__/a.lua", text: "" }],
    "names a folder that objects have": [{ path: "constructor/A.lua", text: "" }],
    "is nested without end": [{ path: `lib/${"a/".repeat(9)}a.lua`, text: "" }],
    "has a file twice": [
      { path: "classes/A.lua", text: "1" },
      { path: "classes/A.lua", text: "2" },
    ],
    "is not UTF-8": [{ path: "classes/A.lua", text: "\ud800" }],
  };
  it.each(Object.entries(refused))("%s", (_, files) => {
    expect(codeOf(() => bundleOf(files, limits))).toBe("bad_release");
  });

  it("is too large in all, in one file, or in their number", () => {
    const files = Array.from({ length: 13 }, (_, index) => ({ path: `classes/A${index}.lua`, text: "" }));
    expect(codeOf(() => bundleOf(files, limits))).toBe("too_large");
    expect(codeOf(() => bundleOf(files.slice(0, 12), limits))).toBeUndefined();
    const half = (path: string): ReleaseFile => ({ path, text: "ä".repeat(512) });
    expect(codeOf(() => bundleOf([half("classes/A.lua"), half("classes/B.lua")], limits))).toBeUndefined();
    const more = [half("classes/A.lua"), half("classes/B.lua"), { path: "classes/C.lua", text: "x" }];
    expect(codeOf(() => bundleOf(more, limits))).toBe("too_large");
    const large = [{ path: "classes/A.lua", text: "x".repeat(1024 * 1024 + 1) }];
    expect(codeOf(() => bundleOf(large, resolveSettings()))).toBe("too_large");
  });
});

it("files become an app's sources and come back from them", () => {
  const files = [
    { path: "classes/Auction.lua", text: "a" },
    { path: "units/order.lua", text: "b" },
    { path: "lib/money/rates.lua", text: "c" },
  ];
  const source = sourceOf("shop", files);
  expect(source).toMatchObject({
    app: "shop",
    classes: [{ app: "shop", name: "Auction", file: "classes/Auction.lua", text: "a" }],
    units: [{ kind: "unit", app: "shop", name: "order", file: "units/order.lua", text: "b" }],
    modules: [{ kind: "module", app: "shop", name: "money.rates", file: "lib/money/rates.lua", text: "c" }],
  });
  expect(filesOf(source)).toEqual(files);
});
