/** Fleets of real processes: three nodes on one file, and three on a real S3 server, of which one is killed under writes. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { type CliOptions, cli, cliJson, RunningCli } from "../cli/cli.js";
import { ledgerApp } from "../drill/ledger-app.js";
import { certificateFiles } from "../support/certificates.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { smallDisk } from "../support/small-disk.js";
import { HURRIED, killOwnerUnderWrites, type NodeProcess } from "./ledger-fleet.js";

const NAMES = ["n1", "n2", "n3"];
const SECRET = "what all three of them know";

/** What `dev --nodes 3` says once all serve and see each other. */
async function nodesOf(dev: RunningCli): Promise<NodeProcess[]> {
  const { serving, seeing } = await dev.document("serving");
  expect(seeing).toBe(true);
  return serving as NodeProcess[];
}

async function standings(options: CliOptions, ...words: string[]): Promise<(readonly [string, string])[]> {
  const { nodes } = (await cliJson(options, "nodes", ...words)).document as {
    nodes: { node: string; standing: string }[];
  };
  return nodes.map(({ node, standing }) => [node, standing]);
}

function fillUp(file: string): void {
  const written = fs.openSync(file, "w");
  try {
    for (;;) fs.writeSync(written, new Uint8Array(4_096));
  } catch (error) {
    expect(error).toMatchObject({ code: "ENOSPC" });
  } finally {
    fs.closeSync(written);
  }
}

describe("moonport dev --nodes 3", () => {
  it("keeps every acknowledged write when an object's owner is killed, goes on, and ends with 0", async () => {
    const options = { cwd: ledgerApp() };
    // Nobody here waits for a session to run out.
    const patient = ["--set", "NODE_TTL_MS=60000"];
    const dev = new RunningCli(options, "dev", "--nodes", "3", "--port", "0", "--json", ...HURRIED, ...patient);
    const nodes = await nodesOf(dev);
    expect(await standings(options)).toEqual(NAMES.map((name) => [name, "live"]));
    const { killed, left } = await killOwnerUnderWrites(nodes);
    expect(await dev.document("ended")).toEqual({ node: killed, ended: { code: null, signal: "SIGKILL" } });
    await expect.poll(() => standings(options), { timeout: 20_000 }).toContainEqual([killed, "dead"]);
    const call = await cliJson(options, "call", "Ledger/a", "add", "100000", "1", "5", "--id", "last");
    expect(call.code).toBe(0);
    dev.signal("SIGINT");
    expect(await dev.exit).toBe(0);
    for (const name of left) expect(dev.stderr).toContain(`${name} | stopped`);
    const documents = dev.lines.map((line) => JSON.parse(line) as { node?: string; url?: string });
    expect(documents.filter(({ node, url }) => node === killed && url !== undefined)).toHaveLength(1);
  });

  it("starts a killed node again with --restart, holds the app's data folder, and leaves it to one node afterwards", async () => {
    const options = { cwd: ledgerApp() };
    const dev = new RunningCli(options, "dev", "--nodes", "3", "--restart", "--port", "0", "--json", ...HURRIED);
    const [first] = (await nodesOf(dev)) as [NodeProcess];
    const call = () => cliJson(options, "call", "Ledger/a", "add", "1", "1", "5", "--id", "one");
    expect((await call()).document).toMatchObject({ value: { n: 1 } });
    expect((await cli(options, "dev", "--port", "0")).code).toBe(8);
    process.kill(first.pid, "SIGKILL");
    const again = await dev.document("url", (url) => url !== first.url && !urlsOf(dev, 3).includes(url as string));
    expect(again).toMatchObject({ node: "n1" });
    expect((await call()).document).toMatchObject({ value: { n: 1 } });
    dev.signal("SIGTERM");
    expect(await dev.exit).toBe(0);
    const alone = await cliJson(options, "call", "Ledger/a", "everything");
    expect(alone.document).toMatchObject({ value: { log: [{ tag: 1 }] } });
  });

  it("ends all nodes when one of them cannot start, with its error and exit code; its nodes end when it is killed", async () => {
    const options = { cwd: ledgerApp() };
    const taken = new RunningCli(
      options,
      "start",
      "--port",
      "0",
      "--json",
      "--data",
      path.join(".moonport", "nodes", "n2"),
    );
    await taken.document("url");
    const failed = await cli(options, "dev", "--nodes", "3", "--port", "0");
    expect([failed.code, failed.stderr]).toEqual([
      8,
      expect.stringMatching(/^n2 \| error: process \d+ .*folder_locked/m),
    ]);
    taken.signal("SIGTERM");
    await taken.exit;
    const dev = new RunningCli(options, "dev", "--nodes", "2", "--port", "0", "--json");
    const { pid } = (await dev.document("url")) as unknown as NodeProcess;
    dev.signal("SIGKILL");
    await expect.poll(() => isAlive(pid), { timeout: 20_000 }).toBe(false);
  });
});

describeOnRealS3("three processes of moonport start on S3", (s3) => {
  it("keep every acknowledged write when an object's owner is killed, and go on", async () => {
    const options = { cwd: ledgerApp(), env: { ...s3().env, MOONPORT_FLEET_SECRET: SECRET } };
    const bucket = ["--bucket", s3().bucketUrl("fleet")];
    const started = NAMES.map((name) => {
      const fleet = ["--node", name, "--fleet-listen", "127.0.0.1:0", "--data", name];
      return new RunningCli(options, "start", "--port", "0", "--json", ...bucket, ...fleet, ...HURRIED);
    });
    const nodes = await Promise.all(started.map((one) => one.document("url")));
    await expect.poll(() => standings(options, "--data", "n1"), { timeout: 20_000 }).toHaveLength(3);
    const { killed, left } = await killOwnerUnderWrites(nodes as unknown as NodeProcess[]);
    const options1 = ["--data", left[0] as string];
    await expect.poll(() => standings(options, ...options1), { timeout: 20_000 }).toContainEqual([killed, "dead"]);
    for (const one of started) one.signal("SIGTERM");
    const codes = await Promise.all(started.map(({ exit }) => exit));
    expect(codes.sort()).toEqual([0, 0, 137]);
    for (const one of started) expect(one.stderr + one.lines.join("")).not.toContain(SECRET);
  });
});

describe("moonport start", () => {
  it.each<[string, string[], Readonly<Record<string, string>>, string, RegExp]>([
    ["a fleet's flag without a fleet", ["--zone", "a"], {}, "bad_option", /zone is given, and no fleet/],
    ["a fleet's secret without a fleet", [], { MOONPORT_FLEET_SECRET: SECRET }, "bad_option", /secret is given/],
    ["a bucket of its own", ["--fleet-listen", "127.0.0.1:0"], {}, "bad_option", /share one bucket/],
    ["a network without a secret", ["--fleet-listen", "10.1.2.3:7071"], {}, "insecure_bind", /has no secret/],
    [
      "a network with a short secret",
      ["--fleet-listen", "10.1.2.3:7071"],
      { MOONPORT_FLEET_SECRET: SECRET.slice(0, 15) },
      "bad_option",
      /16 characters/,
    ],
    ["a secret twice", ["--fleet-secret-file", "x"], { MOONPORT_FLEET_SECRET: SECRET }, "bad_option", /given twice/],
    ["no file of the secret", ["--fleet-secret-file", "x"], {}, "bad_option", /x cannot be read \(ENOENT\)/],
    ["a certificate without its key", ["--fleet-cert", "x"], {}, "bad_option", /--fleet-key is missing/],
    [
      "certificates that are not there",
      ["--fleet-cert", "x", "--fleet-key", "y", "--fleet-ca", "z"],
      {},
      "bad_option",
      /--fleet-cert x cannot be read \(ENOENT\)/,
    ],
    ["a secret on the command line", ["--fleet-secret", SECRET], {}, "bad_option", /unknown option '--fleet-secret'/],
  ])("refuses %s", async (_, words, env, code, message) => {
    const shared = code === "insecure_bind" || message.source.includes("16") ? ["--bucket", "sqlite:b?shared=1"] : [];
    const run = await cliJson({ cwd: ledgerApp(), env }, "start", "--port", "0", ...shared, ...words);
    expect(run.document).toMatchObject({ error: { code, message: expect.stringMatching(message) } });
    expect(JSON.stringify(run.document) + run.stderr).not.toContain(SECRET.slice(0, 15));
  });

  it("ends with what happened to it when another process takes its name, and the other serves", async () => {
    const options = { cwd: ledgerApp() };
    const start = (data: string): RunningCli => {
      const fleet = ["--node", "n1", "--fleet-listen", "127.0.0.1:0", "--bucket", "sqlite:b?shared=1"];
      return new RunningCli(options, "start", "--port", "0", "--json", "--data", data, ...fleet, ...HURRIED);
    };
    const first = start("one");
    await first.document("url");
    const second = start("two");
    await second.document("url");
    expect(await first.exit).toBe(7);
    expect(first.stderr + first.lines.join("")).toContain("another process has taken the name n1");
    expect((await cliJson(options, "call", "Ledger/a", "add", "1", "1", "5", "--data", "two")).code).toBe(0);
    second.signal("SIGTERM");
    expect(await second.exit).toBe(0);
  });

  it("ends with 7 when the disk of its journal fails", async (context) => {
    const disk = smallDisk(context, 512);
    const options = { cwd: ledgerApp() };
    fs.mkdirSync(path.join(options.cwd, "data"));
    fs.symlinkSync(disk.folder, path.join(options.cwd, "data", "journal"));
    const fleet = ["--node", "n1", "--fleet-listen", "127.0.0.1:0", "--bucket", "sqlite:b?shared=1"];
    const settings = ["--set", "JOURNAL_FILE_BYTES=65536", "--set", "JOURNAL_BYTES_MAX=1048576"];
    const node = new RunningCli(
      options,
      ...["start", "--port", "0", "--json", "--data", "data", ...fleet, ...HURRIED, ...settings],
    );
    const { url } = await node.document("url");
    fillUp(path.join(disk.folder, "filler"));
    let ended = false;
    void node.exit.then(() => {
      ended = true;
    });
    for (let n = 1; !ended; n++) {
      const call = { method: "POST", body: JSON.stringify([n, 1, 5]), headers: { "content-type": "application/json" } };
      await fetch(`${url}/v1/default/Ledger/a/add`, call).catch(() => node.exit);
    }
    expect(await node.exit).toBe(7);
    expect(node.stderr + node.lines.join("")).toContain("journal_broken");
  });

  it("serves with encrypted links where all its nodes have certificates", async () => {
    const options = { cwd: ledgerApp() };
    const [cert, key, ca] = certificateFiles("node");
    const tls = ["--fleet-cert", cert, "--fleet-key", key, "--fleet-ca", ca];
    const started = ["n1", "n2"].map((name) => {
      const fleet = ["--node", name, "--fleet-listen", "127.0.0.1:0", "--bucket", "sqlite:b?shared=1", ...tls];
      return new RunningCli(options, "start", "--port", "0", "--json", "--data", name, ...fleet, ...HURRIED);
    });
    for (const one of started) {
      expect(await one.document("url")).toMatchObject({ address: expect.stringMatching(/^wss:/) });
    }
    await expect.poll(() => standings(options, "--data", "n1"), { timeout: 20_000 }).toHaveLength(2);
    // Whichever has it, one of the two is asked by the other.
    for (const data of ["n1", "n2"]) {
      const call = await cliJson(options, "call", "Ledger/a", "add", "1", "1", "5", "--data", data, "--id", "one");
      expect(call.document).toMatchObject({ value: { n: 1 } });
    }
    for (const one of started) one.signal("SIGTERM");
    expect(await Promise.all(started.map(({ exit }) => exit))).toEqual([0, 0]);
  });

  it("joins a fleet as its environment says", async () => {
    const env = {
      MOONPORT_NODE: "left",
      MOONPORT_FLEET_LISTEN: "127.0.0.1:0",
      MOONPORT_FLEET_ADVERTISE: "ws://node.example:7071",
      MOONPORT_ZONE: "cellar",
      MOONPORT_WEIGHT: "0.5",
      MOONPORT_FLEET_SECRET: SECRET,
    };
    const options = { cwd: ledgerApp(), env };
    const node = new RunningCli(options, "start", "--port", "0", "--json", "--bucket", "sqlite:b.db?shared=1");
    const ready = await node.document("url");
    expect(ready).toMatchObject({ node: "left", address: "ws://node.example:7071" });
    const { nodes } = (await cliJson(options, "nodes")).document as { nodes: object[] };
    expect(nodes).toMatchObject([{ node: "left", zone: "cellar", weight: 0.5, clientAddress: ready.url, own: true }]);
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
  });
});

/** Where the nodes answered that said so first. */
function urlsOf(dev: RunningCli, count: number): string[] {
  const urls = dev.lines.flatMap((line) => (JSON.parse(line) as { url?: string }).url ?? []);
  return urls.slice(0, count);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
