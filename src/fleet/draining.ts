/**
 * Draining: a node gives all its objects to the others, and takes none until that is undone or it starts anew. Operators may ask any
 * node for it, which asks the one that is meant.
 */
import { MoonportError } from "../errors.js";
import type { Drained, DrainRequest } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import type { FleetMember } from "./fleet-member.js";

export const DRAIN = "fleet.drain";

/** The body of a {@link DRAIN}. */
export interface DrainAsked {
  readonly undo?: boolean;
}

export class Draining {
  readonly #fleet: FleetMember;
  readonly #world: Pick<World, "clock">;
  readonly #settings: Pick<Settings, "DRAIN_MS" | "LINK_REQUEST_MS">;

  constructor(
    fleet: FleetMember,
    world: Pick<World, "clock">,
    settings: Pick<Settings, "DRAIN_MS" | "LINK_REQUEST_MS">,
  ) {
    this.#fleet = fleet;
    this.#world = world;
    this.#settings = settings;
  }

  /** @throws MoonportError `bad_option` for a node that is not there, or that nobody could take the objects of */
  async drain({ node = this.#fleet.node, undo = false }: DrainRequest): Promise<Drained> {
    const { members } = this.#fleet;
    if (!members.some((member) => member.node === node)) {
      throw MoonportError.of("bad_option", `no node that lives is called ${node}`, {
        hint: `the fleet has ${members.map((member) => member.node).join(", ")}`,
      });
    }
    if (node === this.#fleet.node) return this.here({ undo });
    const { DRAIN_MS, LINK_REQUEST_MS } = this.#settings;
    const body: DrainAsked = { undo };
    const timeoutMs = DRAIN_MS + LINK_REQUEST_MS;
    return (await this.#fleet.ask(this.#fleet.peer(node), DRAIN, body, { timeoutMs })) as Drained;
  }

  /** Of this node itself. @throws MoonportError `bad_option` */
  async here({ undo = false }: DrainAsked): Promise<Drained> {
    const { node } = this.#fleet;
    if (undo) {
      this.#fleet.remain();
      return { node, left: this.#fleet.held };
    }
    if (this.#fleet.takers.length === 0) {
      throw MoonportError.of("bad_option", `nobody is there to take the objects of ${node}`);
    }
    await this.#fleet.leave(this.#world.clock.monotonicMs() + this.#settings.DRAIN_MS);
    return { node, left: this.#fleet.held };
  }
}
