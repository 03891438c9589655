/** A module whose exports are, for one run, not all what they are: how a variant breaks the system without its knowing. */

/** What may be replaced, by its path under src. */
export interface Modules {
  "bucket/ambiguous-write": typeof import("../../../src/bucket/ambiguous-write.js");
  "cluster/journal-rules": typeof import("../../../src/cluster/journal-rules.js");
  "cluster/ownership": typeof import("../../../src/cluster/ownership.js");
  "cluster/release-rule": typeof import("../../../src/cluster/release-rule.js");
  "cluster/tail-choice": typeof import("../../../src/cluster/tail-choice.js");
  "delay/outgoing-message": typeof import("../../../src/delay/outgoing-message.js");
  "delay/owed-keeper": typeof import("../../../src/delay/owed-keeper.js");
  "delay/owed-sessions": typeof import("../../../src/delay/owed-sessions.js");
  "delay/shard-tables": typeof import("../../../src/delay/shard-tables.js");
  "directory/publisher": typeof import("../../../src/directory/publisher.js");
  "fleet/handover": typeof import("../../../src/fleet/handover.js");
  "journal/batch": typeof import("../../../src/journal/batch.js");
  "journal/read-back": typeof import("../../../src/journal/read-back.js");
  "lua/lua-file": typeof import("../../../src/lua/lua-file.js");
  "membership/own-session": typeof import("../../../src/membership/own-session.js");
  "membership/sightings": typeof import("../../../src/membership/sightings.js");
  "object/due-time": typeof import("../../../src/object/due-time.js");
  "object/migrate-object": typeof import("../../../src/object/migrate-object.js");
  "object/remembered-answers": typeof import("../../../src/object/remembered-answers.js");
  "object/replica-copies": typeof import("../../../src/object/replica-copies.js");
  "object/replica-copy": typeof import("../../../src/object/replica-copy.js");
  "object/objects": typeof import("../../../src/object/objects.js");
  "object/resident-object": typeof import("../../../src/object/resident-object.js");
  "object/work": typeof import("../../../src/object/work.js");
  "realtime/feeds": typeof import("../../../src/realtime/feeds.js");
  "realtime/topic": typeof import("../../../src/realtime/topic.js");
  "release/record": typeof import("../../../src/release/record.js");
  "release/store": typeof import("../../../src/release/store.js");
  "shipping/claims": typeof import("../../../src/shipping/claims.js");
  "shipping/collection": typeof import("../../../src/shipping/collection.js");
  "shipping/gate-queue": typeof import("../../../src/shipping/gate-queue.js");
  "shipping/manifest": typeof import("../../../src/shipping/manifest.js");
  "shipping/object-cargo": typeof import("../../../src/shipping/object-cargo.js");
  "shipping/promises": typeof import("../../../src/shipping/promises.js");
  "shipping/replica-stream": typeof import("../../../src/shipping/replica-stream.js");
  "shipping/tail": typeof import("../../../src/shipping/tail.js");
  "store/call-ids": typeof import("../../../src/store/call-ids.js");
  "testing/virtual-marks": typeof import("../../../src/testing/virtual-marks.js");
}

export interface Replacement {
  readonly module: keyof Modules;
  /** @param original as it is, freshly loaded @returns its exports that are others */
  readonly broken: (original: object) => object;
}

export function replacing<K extends keyof Modules>(
  module: K,
  broken: (original: Modules[K]) => Partial<Modules[K]>,
): Replacement {
  return { module, broken: (original) => broken(original as Modules[K]) };
}
