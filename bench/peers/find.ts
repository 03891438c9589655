/** Where the other products are on this machine. None of them is a dependency: what is not there is not measured. */
import { accessSync, closeSync, constants, existsSync, openSync, readSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

export type Found =
  | { readonly kind: "found"; readonly binary: string }
  /** @property hint how to get it */
  | { readonly kind: "missing"; readonly hint: string };

type Environment = Readonly<Record<string, string | undefined>>;

/** `WORKERD`, the package seen from the working directory, or the PATH. */
export function findWorkerd(environment: Environment, directory: string): Found {
  const file =
    environment.WORKERD ?? fromPackage(path.join(directory, "package.json")) ?? onPath("workerd", environment);
  const binary = file === undefined || !isExecutable(file) ? undefined : isScript(file) ? fromPackage(file) : file;
  if (binary !== undefined) return { kind: "found", binary };
  const hint =
    'workerd: not found. "npm install --prefix FOLDER workerd" fetches it (not a dependency of this project); then set ' +
    "WORKERD=FOLDER/node_modules/.bin/workerd.";
  return { kind: "missing", hint };
}

/** `REDIS_SERVER`, or the PATH. */
export function findRedis(environment: Environment): Found {
  const binary = environment.REDIS_SERVER ?? onPath("redis-server", environment);
  if (binary !== undefined && isExecutable(binary)) return { kind: "found", binary };
  const hint = "redis: not found. Debian's package is redis-server; or set REDIS_SERVER to the program's path.";
  return { kind: "missing", hint };
}

function onPath(name: string, environment: Environment): string | undefined {
  const folders = (environment.PATH ?? "").split(path.delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => path.join(folder, name)).find(isExecutable);
}

/** The package knows where its program for this platform is. @param from a file that can see the package */
function fromPackage(from: string): string | undefined {
  try {
    const { default: binary } = createRequire(existsSync(from) ? realpathSync(from) : from)("workerd") as {
      default?: string;
    };
    return binary;
  } catch {
    return undefined;
  }
}

/** What a package manager puts in the PATH may start the program as a child, which would be neither measured nor ended. */
function isScript(file: string): boolean {
  const start = Buffer.alloc(2);
  const descriptor = openSync(file, "r");
  readSync(descriptor, start);
  closeSync(descriptor);
  return start.toString("latin1") === "#!";
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
