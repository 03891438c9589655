/**
 * `npm run drill`: the crash drill by hand and in continuous integration. See docs/testing.md.
 *
 * Where this machine allows it the drill (drill.ts) runs apart, in namespaces of its own: its network, what it mounts and all its
 * processes are gone when it ends, however that comes about. Elsewhere it runs as it is, and skips the rows that need one.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { APART, type EndMessage } from "./apart.js";

/** Who is not root has to be let make a namespace of users, in which he is. */
const USERS = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
const UNSHARE = [...USERS, "--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"];
/** What is named there, namespaces and the memory that libfaketime shares, is the drill's alone as well. */
const SET_UP = ["mount -t tmpfs tmpfs /run", "mkdir /run/netns", "mount -t tmpfs tmpfs /dev/shm", "ip link set lo up"];

const drill = [process.execPath, fileURLToPath(new URL("drill.js", import.meta.url)), ...process.argv.slice(2)];
const whyNot = whyNotApart();
const [program, ...words] = (whyNot === undefined ? apart(drill) : drill) as [string, ...string[]];
const child = spawn(program, words, {
  stdio: ["inherit", "inherit", "inherit", "ipc"],
  env: { ...process.env, DRILL_APART: whyNot ?? APART },
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    const message: EndMessage = { end: signal };
    if (child.connected) child.send(message);
  });
}
const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
process.exit(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));

function apart(command: readonly string[]): readonly string[] {
  return ["unshare", ...UNSHARE, "sh", "-c", `${SET_UP.join(" && ")} && exec "$@"`, "sh", ...command];
}

function whyNotApart(): string | undefined {
  const [program, ...words] = apart(["ip", "netns", "add", "tried"]) as [string, ...string[]];
  const { status, stderr, error } = spawnSync(program, words, { encoding: "utf8" });
  if (status === 0) return undefined;
  const said = error?.message ?? stderr.trim().split("\n").at(-1);
  return `no namespaces of its own here, which take root or user namespaces, unshare and iproute2: ${said}`;
}
