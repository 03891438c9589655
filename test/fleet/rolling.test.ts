/** A loaded fleet of real processes, each of which is stopped and started again. */
import { expect, it } from "vitest";
import { ledgerApp } from "../drill/ledger-app.js";
import { rollingRestart } from "./rolling/rolling-restart.js";

it("a rolling restart loses no acknowledged call, fails none, and whoever watches sees each event once", async () => {
  const load = { objects: 12, lanesPerClient: 2, callsBetween: 20 };
  const { exits, faults } = await rollingRestart({ cwd: ledgerApp(), settings: [], ...load });
  expect(faults).toEqual([]);
  expect(exits).toEqual([0, 0, 0, 0, 0, 0]);
}, 300_000);
