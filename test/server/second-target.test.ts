/** Operations that name a second object: whoever asks must be allowed both, by whichever door. */
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { ask } from "./door.js";
import { openSockets, TestClient } from "./sockets.js";

const KEYS = ["mine-1", "mine-2", "theirs-1", "theirs-2"];
const TOKEN = "mp_operator-0123456789abcdef";
const key = fc.constantFrom(...KEYS);
const isMine = (name: string): boolean => name.startsWith("mine-");

async function open(right: string): Promise<Awaited<ReturnType<typeof openSockets>>> {
  const allow = [{ apps: ["default"], classes: ["Lot"], keys: ["mine-*"], rights: [right] }];
  const file = JSON.stringify({ tokens: [{ id: "operator", token: TOKEN, allow }] });
  const opened = await openSockets({}, new StaticTokens(file, "auth.json", new Uint8Array(32)));
  onTestFinished(() => opened.stop());
  return opened;
}

const headers = { authorization: `Bearer ${TOKEN}` };

it("a fork is made by who may both read the one and make the other", async () => {
  const { port } = await open("admin");
  await fc.assert(
    fc.asyncProperty(key, key, async (from, to) => {
      const path = `/v1/admin/fork/default/Lot/${from}`;
      const { status } = await ask(port, "POST", path, JSON.stringify({ to }), headers);
      expect([from, to, status]).toEqual([from, to, isMine(from) && isMine(to) ? 200 : 403]);
    }),
  );
});

it("a command is sent by who may send it and tell whoever hears of its outcome", async () => {
  const { port } = await open("send");
  const client = await TestClient.greeted(port, undefined, TOKEN);
  let id = 0;
  await fc.assert(
    fc.asyncProperty(key, key, fc.constantFrom("method", "event"), async (from, to, told) => {
      const expected = isMine(from) && isMine(to) ? 200 : 403;
      const parameter = told === "method" ? "outcome" : "outcome_event";
      const path = `/v1/default/Lot/${from}/-/send/put?${parameter}=Lot/${to}/told`;
      const { status } = await ask(port, "POST", path, "[]", headers);
      expect([from, to, status]).toEqual([from, to, expected]);
      id++;
      const outcome = { class: "Lot", key: to, ...(told === "method" ? { method: "told" } : { event: "told" }) };
      client.send({ type: "send", id, class: "Lot", key: from, method: "put", command: { outcome } });
      const answer = await client.next(expected === 200 ? "reply" : "error", id);
      if (expected === 403) expect(answer.error).toMatchObject({ code: "forbidden" });
    }),
  );
});
