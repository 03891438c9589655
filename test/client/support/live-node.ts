/** A real node behind its real doors, which can be stopped and started again under its clients. */
import { onTestFinished } from "vitest";
import { openBucket } from "../../../src/bucket/open-bucket.js";
import { MoonportNode } from "../../../src/node.js";
import { type Doors, openDoors } from "../../../src/server/doors.js";
import { resolveSettings } from "../../../src/settings/settings.js";
import { silentLogger } from "../../../src/world/logger.js";
import { realWorld } from "../../../src/world/real-world.js";
import { temporaryFolder } from "../../support/temporary-folder.js";
import { TALLY } from "./tally.js";

export class LiveNode {
  readonly #root = temporaryFolder();
  readonly #classes: Readonly<Record<string, string>>;
  readonly #settings: ReturnType<typeof resolveSettings>;
  #running: { readonly node: MoonportNode; readonly doors: Doors } | undefined;
  #port = 0;

  private constructor(settings: Readonly<Record<string, number>>, classes: Readonly<Record<string, string>>) {
    this.#classes = classes;
    this.#settings = resolveSettings({ DRAIN_MS: 2_000, ...settings });
  }

  /** @param classes Lua by name */
  static async start(
    settings: Readonly<Record<string, number>> = {},
    classes: Readonly<Record<string, string>> = { Tally: TALLY },
  ): Promise<LiveNode> {
    const live = new LiveNode(settings, classes);
    await live.open();
    onTestFinished(() => live.stop());
    return live;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.#port}`;
  }

  /** On the port it had before. */
  async open(): Promise<void> {
    const world = realWorld(this.#root, silentLogger);
    const settings = this.#settings;
    const classes = Object.entries(this.#classes).map(([name, text]) => ({
      app: "default",
      name,
      file: `classes/${name}.lua`,
      text,
    }));
    const node = await MoonportNode.open({
      world,
      bucket: openBucket(`sqlite:${this.#root}/bucket.sqlite`, world, settings),
      apps: [{ app: "default", classes }],
      settings,
      onClassError: "refuse",
    });
    const { session } = node;
    const doors = await openDoors({ node, session, settings, world, host: "127.0.0.1", port: this.#port });
    this.#port = Number(new URL(doors.url).port);
    this.#running = { node, doors };
  }

  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.doors.stop();
    await running?.node.stop();
  }
}
