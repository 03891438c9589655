import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const MAIN = path.join(packageRoot, "dist", "examples", "embed", "main.js");

interface Running {
  readonly url: string;
  stop(): Promise<number | null>;
}

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
  for (const part of ["classes", "units"]) {
    fs.cpSync(path.join(packageRoot, "examples", "embed", part), path.join(folder, part), { recursive: true });
  }
});

async function start(): Promise<Running> {
  const child: ChildProcess = spawn(process.execPath, [MAIN], { cwd: folder, env: { ...process.env, PORT: "0" } });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let stderr = "";
  child.stderr?.on("data", (part) => {
    stderr += part;
  });
  if (child.stdout === null) throw new Error("no stdout");
  for await (const line of readline.createInterface({ input: child.stdout })) {
    const url = /http:\S+/.exec(line)?.[0];
    if (url === undefined) continue;
    const stop = (): Promise<number | null> => {
      child.kill("SIGTERM");
      return ended;
    };
    return { url, stop };
  }
  throw new Error(`it ended before it was ready: ${stderr}`);
}

async function sign({ url }: Running, name: string, text: string): Promise<{ status: number; answer: unknown }> {
  const response = await fetch(`${url}/books/moon/entries`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name, text }),
  });
  return { status: response.status, answer: await response.json() };
}

/** Server-Sent Events as they come: the id, the name and the data of each. */
async function* live({ url }: Running, lastId?: string): AsyncGenerator<{ id: string; event: string; data: unknown }> {
  const response = await fetch(
    `${url}/books/moon/live`,
    lastId === undefined ? {} : { headers: { "last-event-id": lastId } },
  );
  if (response.body === null) throw new Error("no body");
  let text = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [id = "", event = "", data = ""] = text
        .slice(0, end)
        .split("\n")
        .map((line) => line.replace(/^\w+: /, ""));
      text = text.slice(end + 2);
      yield { id, event, data: JSON.parse(data) };
    }
  }
}

describe("the guestbook example", () => {
  it("signs, shows, refuses and streams, and goes on after a restart where it was", async () => {
    const first = await start();
    const hello = { id: 1, name: "ada", text: "hello", at: expect.any(Number) };
    expect(await sign(first, "ada", "hello")).toEqual({ status: 201, answer: hello });
    expect(await (await fetch(`${first.url}/books/moon`)).json()).toEqual([hello]);

    const stream = live(first);
    expect((await stream.next()).value).toMatchObject({ id: "1", event: "entries", data: [hello] });
    await sign(first, "grace", "hello again");
    expect((await stream.next()).value).toMatchObject({ id: "2", event: "signed", data: { name: "grace" } });

    expect(await sign(first, "mae", "how moist")).toMatchObject({ status: 422, answer: { code: "unwelcome" } });
    expect(await sign(first, "", "who?")).toMatchObject({ status: 422, answer: { code: "no_name" } });
    expect(await first.stop()).toBe(0);
    expect((await stream.next()).done).toBe(true);

    const second = await start();
    expect(await sign(second, "mae", "back again")).toMatchObject({ answer: { id: 3 } });
    const resumed = live(second, "1");
    expect((await resumed.next()).value).toMatchObject({ id: "2", data: { name: "grace" } });
    expect((await resumed.next()).value).toMatchObject({ id: "3", data: { name: "mae" } });
    await resumed.return(undefined);
    expect(await second.stop()).toBe(0);
  });
});
