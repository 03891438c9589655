/**
 * Processes of the benchmark's own: servers and load must not share a core's time, a heap or a garbage collector.
 *
 * A child does what it is told, one command at a time, and ends when its parent does.
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** By command's name: what it takes and what it answers, both of them JSON. */
export type Commands<C> = { readonly [K in keyof C]: (input: never) => Promise<unknown> };

interface Asked {
  readonly command: string;
  readonly input: unknown;
}

type Told = { readonly value: unknown } | { readonly error: string };

export class Child<C extends Commands<C>> {
  readonly #process: ChildProcess;
  #settle: ((told: Told) => void) | undefined;

  /** @param file of `bench/`, compiled: `load/load-child.js` */
  constructor(file: string, flags: readonly string[] = []) {
    const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
    this.#process = fork(path, [], { execArgv: [...process.execArgv, ...flags] });
    this.#process.on("message", (told: Told) => this.#settle?.(told));
    this.#process.on("exit", (code) => this.#settle?.({ error: `${file} ended with ${code}` }));
  }

  ask<K extends keyof C & string>(command: K, input: Parameters<C[K]>[0]): Promise<Awaited<ReturnType<C[K]>>> {
    return new Promise((resolve, reject) => {
      this.#settle = (told) => {
        this.#settle = undefined;
        if ("error" in told) reject(new Error(told.error));
        // Both ends are compiled from one type.
        else resolve(told.value as Awaited<ReturnType<C[K]>>);
      };
      this.#process.send({ command, input });
    });
  }

  /** Resolves when it has ended by itself. */
  close(): Promise<void> {
    if (this.#process.exitCode !== null) return Promise.resolve();
    return new Promise((resolve) => {
      this.#process.once("exit", () => resolve());
      this.#process.disconnect();
    });
  }
}

/** The child's side. @param ended what is left to do before the process goes */
export function serve<C extends Commands<C>>(commands: C, ended: () => Promise<void>): void {
  process.on("message", ({ command, input }: Asked) => {
    // Both ends are compiled from one type: the input is the command's.
    commands[command as keyof C](input as never).then(
      (value) => process.send?.({ value } satisfies Told),
      (error: unknown) => process.send?.({ error: error instanceof Error ? (error.stack ?? "") : String(error) }),
    );
  });
  process.on("disconnect", () => void ended().finally(() => process.exit()));
}
