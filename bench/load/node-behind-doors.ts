/** A {@link BenchNode} that is reached as any other is: HTTP and WebSocket on one port of this machine, settings as by default. */
import { openDoors } from "../../src/server/doors.js";
import { BenchNode } from "../support/bench-node.js";

/** All of the rows' objects have their files open: an LRU that thrashes is another row's business. */
const FILES_OPEN_MAX = 3_000;

export class NodeBehindDoors {
  readonly bench: BenchNode;
  /** `http://127.0.0.1:7070` */
  readonly url: string;
  readonly #stopDoors: () => Promise<void>;

  private constructor(bench: BenchNode, url: string, stopDoors: () => Promise<void>) {
    this.bench = bench;
    this.url = url;
    this.#stopDoors = stopDoors;
  }

  static async open(folder: string): Promise<NodeBehindDoors> {
    const bench = await BenchNode.open(folder, { OBJECT_FILES_OPEN_MAX: FILES_OPEN_MAX });
    const { node, settings, world } = bench;
    const doors = await openDoors({ node, session: node.session, settings, world, host: "127.0.0.1", port: 0 });
    return new NodeBehindDoors(bench, doors.url, () => doors.stop());
  }

  async close(): Promise<void> {
    await this.#stopDoors();
    await this.bench.close();
  }
}
