/** What the machine can do to the nodes of the drill: a network that can be cut, a small disk, a clock that steps. Where it cannot, it says why. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { assertApart } from "./apart.js";
import type { DrillNode, DrillNodeOptions } from "./drill-node.js";
import { type DrillFleet, type DrillServer, NAMES } from "./fleet.js";
import { DrillNetwork } from "./network.js";

/** Of the node whose disk is small. Its journal and the objects of a drill take a few. */
const DISK_MIB = 64;
const SMALL = NAMES[1];
const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

export class Machine {
  readonly fleet: DrillFleet;
  /** Or why there is none. */
  readonly network: DrillNetwork | string;
  readonly disk: SmallDisk | string;
  readonly clocks: Clocks | string;

  private constructor(
    fleet: DrillFleet,
    network: Machine["network"],
    disk: Machine["disk"],
    clocks: Machine["clocks"],
  ) {
    this.fleet = fleet;
    this.network = network;
    this.disk = disk;
    this.clocks = clocks;
  }

  /** A fleet on all that this machine can do; it ends with the server. */
  static async make(server: DrillServer, sets: Readonly<Record<string, number>> = {}): Promise<Machine> {
    const network = orWhy(() => new DrillNetwork());
    const clocks = orWhy(() => new Clocks(server.folder));
    let disk: SmallDisk | string = "";
    const endpoint = network instanceof DrillNetwork ? `http://${await network.forward(server.proxy.port)}` : undefined;
    const node = (name: string, cwd: string): Partial<DrillNodeOptions> => {
      if (name === SMALL) disk = orWhy(() => new SmallDisk(path.join(cwd, name)));
      const prefix = [
        ...(network instanceof DrillNetwork ? network.enter(name) : []),
        ...(clocks instanceof Clocks ? clocks.enter(name) : []),
      ];
      return { prefix, ...(network instanceof DrillNetwork && { host: network.addressOf(name) }) };
    };
    server.beforeStop(async () => {
      if (network instanceof DrillNetwork) network.close();
      if (disk instanceof SmallDisk) disk.remove();
    });
    const fleet = await server.fleet({ sets, node, ...(endpoint !== undefined && { endpoint }) });
    return new Machine(fleet, network, disk, clocks);
  }
}

/** A node's data folder on a file system of its own that can be filled. */
export class SmallDisk {
  readonly #folder: string;

  /** @throws Error where it may not be mounted */
  constructor(folder: string) {
    assertApart();
    this.#folder = folder;
    fs.mkdirSync(folder);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_MIB}m`, "tmpfs", folder], { stdio: "pipe" });
  }

  nodeOf(fleet: DrillFleet): DrillNode {
    return fleet.node(SMALL);
  }

  fill(): void {
    const file = fs.openSync(path.join(this.#folder, "filler"), "a");
    try {
      for (const bytes = Buffer.alloc(4_096); ; ) fs.writeSync(file, bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      fs.closeSync(file);
    }
  }

  free(): void {
    fs.rmSync(path.join(this.#folder, "filler"), { force: true });
  }

  remove(): void {
    execFileSync("umount", ["-l", this.#folder], { stdio: "pipe" });
  }
}

/** Wall clocks of the nodes that can be stepped while they run; their monotonic clocks go on. */
export class Clocks {
  readonly #folder: string;
  readonly #library: string;

  /** @throws Error where libfaketime is not installed */
  constructor(folder: string) {
    const library = FAKETIME.find((file) => fs.existsSync(file));
    if (library === undefined) throw new Error("libfaketime is not installed: apt-get install faketime");
    this.#library = library;
    this.#folder = folder;
  }

  enter(name: string): readonly string[] {
    this.step(name, 0);
    return [
      "env",
      `LD_PRELOAD=${this.#library}`,
      `FAKETIME_TIMESTAMP_FILE=${this.#fileOf(name)}`,
      "FAKETIME_NO_CACHE=1",
      "FAKETIME_DONT_FAKE_MONOTONIC=1",
      "FAKETIME_DONT_RESET=1",
    ];
  }

  /** From the true time. */
  step(name: string, seconds: number): void {
    fs.writeFileSync(this.#fileOf(name), `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}\n`);
  }

  #fileOf(name: string): string {
    return path.join(this.#folder, `clock-${name}`);
  }
}

function orWhy<T>(make: () => T): T | string {
  try {
    return make();
  } catch (error) {
    return (error as Error).message.split("\n")[0] as string;
  }
}
