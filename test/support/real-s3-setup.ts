/**
 * The real S3 server of one run of vitest, in vitest's own process: started when the first test file asks for it over a
 * socket, handed to all others, stopped at the end. The server ends with this process too, should that be killed.
 */
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { INSTALL_COMMAND, missingPrograms, type Radosgw, startRadosgw } from "./radosgw.js";
import type { RealS3Answer } from "./real-s3.js";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const missing = missingPrograms();
  if (missing.length === 0) return serve(project);
  const reason = `no ${missing.join(", ")} on this machine`;
  if (process.env.REQUIRE_S3 !== "1") return noteSkipped(project, reason);
  throw new Error(`REQUIRE_S3=1, and ${reason}. To get a real S3 server: ${INSTALL_COMMAND}`);
}

/** @returns what ends the server, if it was asked for */
async function serve(project: TestProject): Promise<() => Promise<void>> {
  let starting: Promise<Radosgw> | undefined;
  const listener = net.createServer(async (socket) => {
    // A test file that has ended meanwhile does not wait for its answer.
    socket.on("error", () => {});
    starting ??= startRadosgw();
    socket.end(JSON.stringify(await answerOf(starting)));
  });
  await new Promise<void>((resolve, reject) => listener.on("error", reject).listen(0, "127.0.0.1", resolve));
  project.provide("realS3", { kind: "installed", controlPort: (listener.address() as net.AddressInfo).port });
  return async () => {
    listener.close();
    const server = await starting?.catch(() => undefined);
    await server?.stop();
  };
}

async function answerOf(starting: Promise<Radosgw>): Promise<RealS3Answer> {
  try {
    const { endpoint, host, port, keys, env, configFile } = await starting;
    return { kind: "up", server: { endpoint, host, port, keys, env, configFile } };
  } catch (error) {
    return { kind: "failed", message: error instanceof Error ? error.message : String(error) };
  }
}

/** @returns what says, at the end, which groups did not run and how to run them */
function noteSkipped(project: TestProject, reason: string): () => Promise<void> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-run-"));
  const skippedFile = path.join(folder, "skipped");
  fs.writeFileSync(skippedFile, "");
  project.provide("realS3", { kind: "missing", skippedFile });
  return async () => {
    const groups = new Set(fs.readFileSync(skippedFile, "utf8").split("\n").filter(Boolean));
    fs.rmSync(folder, { recursive: true });
    if (groups.size === 0) return;
    const lines = [...groups].map((line) => `  ${path.relative(process.cwd(), line)}`).join("\n");
    console.warn(`\nSKIPPED for want of a real S3 server (${reason}):\n${lines}\nTo run them: ${INSTALL_COMMAND}\n`);
  };
}
