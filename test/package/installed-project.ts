/**
 * A project that has Moonport installed, from the tarball that `npm pack` makes of the build. What Moonport depends on is
 * linked from this repository instead of being installed again, and nothing else is: an undeclared dependency fails.
 */
import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../cli/package-root.js";

const execute = promisify(execFile);
const MODULES = path.join(packageRoot, "node_modules");
/** What a TypeScript project has of its own. */
const OF_THE_PROJECT = ["@types/node"];

const TSCONFIG = {
  compilerOptions: {
    target: "ES2022",
    lib: ["ES2023"],
    module: "NodeNext",
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
  },
  include: ["*.ts"],
};

export class InstalledProject {
  private constructor(
    readonly folder: string,
    /** Paths in the tarball. */
    readonly files: readonly string[],
  ) {}

  static async make(): Promise<InstalledProject> {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-package-"));
    const packed = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], packageRoot);
    const [tarball] = JSON.parse(packed) as { filename: string; files: { path: string }[] }[];
    if (tarball === undefined) throw new Error("npm packed nothing");
    const installed = path.join(folder, "node_modules", "moonport");
    fs.mkdirSync(path.join(folder, "node_modules", ".bin"), { recursive: true });
    fs.mkdirSync(installed);
    await run("tar", ["xzf", path.join(folder, tarball.filename), "-C", installed, "--strip-components=1"], folder);
    const { dependencies, bin } = JSON.parse(fs.readFileSync(path.join(installed, "package.json"), "utf8"));
    for (const name of [...Object.keys(dependencies), ...OF_THE_PROJECT]) link(folder, name);
    // As npm does when it links a command.
    fs.chmodSync(path.join(installed, bin.moonport), 0o755);
    fs.symlinkSync(path.join("..", "moonport", bin.moonport), path.join(folder, "node_modules", ".bin", "moonport"));
    fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
    fs.writeFileSync(path.join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG));
    return new InstalledProject(
      folder,
      tarball.files.map((file) => file.path),
    );
  }

  write(file: string, text: string): void {
    fs.writeFileSync(path.join(this.folder, file), text);
  }

  /** The command's stdout; rejects with its stderr unless it ends with 0. */
  run(command: string, args: readonly string[], cwd = this.folder): Promise<string> {
    return run(command, args, cwd);
  }

  /** Compiles every `*.ts` of the project beside itself. Rejects with what the compiler says. */
  compile(): Promise<string> {
    return this.run(process.execPath, [path.join(MODULES, "typescript", "bin", "tsc"), "-p", "."]);
  }

  remove(): void {
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

function link(folder: string, name: string): void {
  const target = path.join(folder, "node_modules", name);
  fs.mkdirSync(path.dirname(target), { recursive: true });
  fs.symlinkSync(path.join(MODULES, name), target);
}

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    return (await execute(command, [...args], { cwd, maxBuffer: 64 * 1024 * 1024 })).stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(" ")} failed:\n${stdout}${stderr}`, { cause: error });
  }
}
