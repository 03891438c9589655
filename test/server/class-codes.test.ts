/** A class may throw a code that Moonport uses too: nothing follows from it but the error that the caller gets. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { ERROR_CODES, type ErrorCode, MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { appOf } from "../support/virtual-node.js";
import { ask, type OpenDoor, openDoor } from "./door.js";

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const TOKEN = "mp_reader-0123456789abcdef";
/** What would be no header at all, if it became one. */
const DETAILS = { allow: ["a\r\nX-Evil: 1"], node: "n2" };

describe("over HTTP", () => {
  let open: OpenDoor;
  beforeAll(async () => {
    const file = JSON.stringify({ tokens: [{ id: "reader", token: TOKEN, allow: [{ rights: ["read"] }] }] });
    open = await openDoor({}, { auth: new StaticTokens(file, "auth.json", new Uint8Array(32)) });
  });
  afterAll(() => open.door.stop());

  it.each(CODES)("%s", async (code) => {
    open.node.answer = () => Promise.reject(MoonportError.byClass(code, "no", { details: DETAILS }));
    const authorization = `Bearer ${TOKEN}`;
    const { status, headers, json } = await ask(open.port, "POST", "/v1/default/Echo/a/say", "[]", { authorization });
    expect([status, json.code, json.source]).toEqual([422, code, "class"]);
    const { allow, "www-authenticate": challenge, "retry-after": retry } = headers;
    expect([allow, challenge, retry]).toEqual([undefined, undefined, undefined]);
  });
});

it("between nodes: the method runs once, and its error comes back as it is", async () => {
  const Echo = `local Echo = class "Echo"
function Echo:throw(code) log.info("ran") error { code = code, message = "no", node = "n1" } end
return Echo`;
  const fleet = new SimulatedFleet({ seed: 5, apps: [appOf({ Echo })] });
  try {
    const { time } = fleet;
    const names = ["n1", "n2"];
    for (const name of names) await fleet.start(name);
    await time.advance(2_000);
    const object = identityOf("default", "Echo", "a");
    for (const code of ["moved", "node_unreachable", "node_stopping", "link_broken", "outcome_unknown"]) {
      for (const name of names) {
        const startedMs = time.nowMs;
        const asked = fleet.node(name).call({ object, method: "throw", args: [code], caller: { kind: "client" } });
        const error = await time.until(asked.catch((thrown) => thrown));
        expect([error.code, error.source, error.entry.status]).toEqual([code, "class", 422]);
        // What is tried again pauses first, and gives up after CALL_TIMEOUT_MS.
        expect(time.nowMs - startedMs).toBeLessThan(1_000);
      }
    }
  } finally {
    fleet.close();
  }
});
