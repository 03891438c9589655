import { describe, expect, it } from "vitest";
import { objectOf } from "../../src/server/frame-target.js";

describe("the object of a frame", () => {
  it("is another one for every app, class and key, whichever was spoken of before", () => {
    const ids = () => [
      objectOf({ class: "Auction", key: "lot" }).id,
      objectOf({ class: "Room", key: "lot" }).id,
      objectOf({ app: "shop", class: "Auction", key: "lot" }).id,
      objectOf({ class: "Auction", key: "lot-2" }).id,
    ];
    const wanted = ["default/Auction/lot", "default/Room/lot", "shop/Auction/lot", "default/Auction/lot-2"];
    expect(ids()).toEqual(wanted);
    expect(ids()).toEqual(wanted);
  });

  it("is made once for frames that follow each other", () => {
    const target = { class: "Auction", key: "lot-3" };
    expect(objectOf(target)).toBe(objectOf({ ...target }));
  });

  it("is refused each time that its name is none", () => {
    const refused = () => objectOf({ class: "auction", key: "lot-4" });
    expect(refused).toThrow(/no class name/);
    expect(refused).toThrow(/no class name/);
    expect(() => objectOf({ class: "Auction", key: "" })).toThrow(/bytes of UTF-8/);
  });

  it("is right beyond the number that is remembered", () => {
    for (let n = 0; n < 5_000; n++) expect(objectOf({ class: "Auction", key: `many-${n}` }).key).toBe(`many-${n}`);
    expect(objectOf({ class: "Auction", key: "many-0" }).id).toBe("default/Auction/many-0");
  });
});
