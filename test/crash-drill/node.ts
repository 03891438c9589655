/** The program of the drill's nodes: the command as it is, which ends at the fault point that the drill has named. */
import fs from "node:fs";
import { type FaultPoint, watchFaultPoints } from "../../src/world/fault-point.js";
import { type Armed, type ArmMessage, REACHED } from "./armed.js";

let armed: Armed | null = null;
let pattern = /./;
let left = 0;

process.on("message", (message: ArmMessage) => {
  armed = message.arm;
  pattern = new RegExp(armed?.detail ?? ".");
  left = armed?.skip ?? 0;
  process.send?.(message);
});
// Nobody else would end a node of the drill.
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
// To listen to it is no reason to stay.
process.channel?.unref();

watchFaultPoints((point: FaultPoint, detail: string) => {
  if (armed === null || armed.point !== point || !pattern.test(detail) || left-- > 0) return;
  fs.writeSync(process.stderr.fd, `${REACHED}${point} ${detail}\n`);
  process.kill(process.pid, "SIGKILL");
  // The signal comes before this thread goes on, as a rule; it must never.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});

await import("../../cli/main.js");
