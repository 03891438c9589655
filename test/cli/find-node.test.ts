import fs from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { Context } from "../../cli/context.js";
import { type FoundNode, withNode } from "../../cli/find-node.js";
import { type ErrorCode, MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { problemOf } from "../../src/wire/problem.js";
import { temporaryFolder } from "../support/temporary-folder.js";

type Answer = "lost" | ErrorCode;

/** The node of a data folder; it answers the calls in this order. */
async function contextOf(...answers: Answer[]): Promise<Context> {
  const refuse = (response: ServerResponse, code: ErrorCode): void => {
    const error = MoonportError.of(code, "what happened");
    response.writeHead(error.entry.status, { "content-type": "application/problem+json" });
    response.end(JSON.stringify(problemOf(error)));
  };
  const server = createServer((request, response) => {
    if (request.url === "/healthz") {
      response.setHeader("content-type", "application/json");
      return void response.end('{"session":"this-life"}');
    }
    const answer = answers.shift() ?? "lost";
    if (answer === "lost") request.socket.destroy();
    else refuse(response, answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const data = temporaryFolder();
  const file = { pid: process.pid, session: "this-life", command: "start", url: `http://127.0.0.1:${port}` };
  fs.writeFileSync(path.join(data, "node.json"), JSON.stringify(file));
  return { data, configured: false } as unknown as Context;
}

const call = ({ node }: FoundNode): Promise<unknown> =>
  node.call({ object: identityOf("default", "Echo", "a"), method: "say", args: [], caller: { kind: "client" } });

it.each<[ErrorCode, Answer[]]>([
  ["outcome_unknown", ["lost", "mailbox_full"]],
  ["outcome_unknown", ["lost", "deadline_exceeded"]],
  ["outcome_unknown", ["lost", "lost", "node_stopping"]],
  ["outcome_unknown", ["lost", "lost", "lost"]],
  // What a call came to is told by whichever node knows.
  ["method_not_found", ["lost", "method_not_found"]],
  ["mailbox_full", ["mailbox_full"]],
])("a call ends with %s when its tries end with %j", async (code, answers) => {
  const context = await contextOf(...answers);
  const outcome = withNode(context, "call", call, { isRepeatable: true });
  await expect(outcome).rejects.toMatchObject({ code });
});
