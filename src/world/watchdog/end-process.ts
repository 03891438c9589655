/**
 * Ends the process from a thread whose main thread does not answer. `process.exit` would only end the thread.
 *
 * SIGKILL can be neither caught nor held up, and leaves no image of users' data behind. The one process that it does not end is
 * the first of a container: the kernel drops what that one sends to itself. There the process leaves by the C library's
 * `exit`, which of everything a thread may call only WASI's `proc_exit` reaches.
 */
import { createRequire } from "node:module";

/** What of it is used here; TypeScript has its types among those of browsers only. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => object;
};

const SIGNAL_MS = 200;

/** @param sleep blocks the thread. Does not return. */
export function endProcess(exitCode: number, sleep: (ms: number) => void): void {
  process.kill(process.pid, "SIGKILL");
  sleep(SIGNAL_MS);
  exitByWasi(exitCode);
}

function exitByWasi(exitCode: number): void {
  // Loaded here, because it warns on being loaded that it is experimental.
  const { WASI } = createRequire(import.meta.url)("node:wasi") as typeof import("node:wasi");
  const wasi = new WASI({ version: "preview1", returnOnExit: false });
  const module = new WebAssembly.Module(exitProgram(exitCode));
  wasi.start(new WebAssembly.Instance(module, wasi.getImportObject()));
}

/**
 * `(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i32))) (memory (export "memory") 1)
 *   (func (export "_start") i32.const CODE  call 0))`
 * @param exitCode 64 to 255, two bytes of LEB128
 */
function exitProgram(exitCode: number): Uint8Array {
  const name = (text: string): number[] => [text.length, ...Buffer.from(text)];
  const section = (id: number, content: readonly number[]): number[] => [id, content.length, ...content];
  const code = [0, 0x41, 0x80 | (exitCode & 0x7f), exitCode >> 7, 0x10, 0, 0x0b];
  return new Uint8Array([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [2, 0x60, 1, 0x7f, 0, 0x60, 0, 0]),
    ...section(2, [1, ...name("wasi_snapshot_preview1"), ...name("proc_exit"), 0, 0]),
    ...section(3, [1, 1]),
    ...section(5, [1, 0, 1]),
    ...section(7, [2, ...name("memory"), 2, 0, ...name("_start"), 0, 1]),
    ...section(10, [1, code.length, ...code]),
  ]);
}
