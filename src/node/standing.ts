/** How a node stands at this moment: for operators, and for its page of metrics. */
import type { Bucket } from "../bucket/bucket.js";
import type { Directories } from "../directory/directories.js";
import type { NodeGauges } from "../metrics/measured.js";
import type { NodeStatus } from "../node-api.js";
import type { Catalog } from "../object/catalog.js";
import type { FilePool } from "../object/file-pool.js";
import type { Objects } from "../object/objects.js";
import type { AnswerMemory } from "../object/remembered-answers.js";
import type { ReplicaCopies } from "../object/replica-copies.js";
import type { Hub } from "../realtime/hub.js";
import type { NodeReleases } from "../release/node-releases.js";
import type { LandingProbe } from "../shipping/landing-probe.js";
import type { UnitRunner } from "../units/unit-runner.js";
import { VERSION } from "../version.js";
import type { Admission } from "./admission.js";

export interface StandingParts {
  readonly session: string;
  readonly bucket: Bucket;
  readonly admission: Admission;
  readonly catalog: Catalog;
  readonly releasing: NodeReleases;
  readonly objects: Objects;
  readonly files: FilePool;
  readonly copies: ReplicaCopies | undefined;
  readonly answers: AnswerMemory;
  readonly units: UnitRunner;
  readonly hub: Hub;
  readonly directories: Directories;
  readonly probe: LandingProbe;
}

export function statusOf(parts: StandingParts): NodeStatus {
  const { session, bucket, admission, catalog, releasing, objects, files, hub, probe } = parts;
  return {
    version: VERSION,
    session,
    ready: admission.isServing,
    writesLand: probe.writesLand,
    sinceLandedMs: Math.round(probe.sinceLandedMs),
    bucket: bucket.name,
    residents: objects.residents,
    openFiles: files.size,
    subscriptions: hub.subscriptions,
    watchedObjects: hub.watchedObjects,
    classes: catalog.list().length,
    classErrors: catalog.faults().map(({ file, error }) => ({ file, message: error.message })),
    releases: releasing.served,
  };
}

export function gaugesOf(parts: StandingParts): NodeGauges {
  const { session, bucket, catalog, releasing, objects, files, copies, answers, units, hub, directories, probe } =
    parts;
  return {
    version: VERSION,
    session,
    bucket: bucket.name,
    writesLand: probe.writesLand,
    sinceLandedMs: probe.sinceLandedMs,
    loadFaults: catalog.faults().length,
    releases: releasing.served,
    unitsRunning: units.running,
    ...objects.waiting,
    residents: objects.residents,
    openFiles: files.size,
    copies: copies?.size ?? 0,
    copyBytes: copies?.bytes ?? 0,
    answerBytes: answers.bytes,
    subscriptions: hub.subscriptions,
    watchedObjects: hub.watchedObjects,
    directory: directories.gauges,
  };
}
