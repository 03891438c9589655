/** The promises that a bucket is probed for (probe.ts), in the order in which they are tried. */
export type ProbeCheck =
  | "create"
  | "read"
  | "reject_create"
  | "update"
  | "reject_stale"
  | "one_winner"
  | "atomic_batch"
  | "list"
  | "delete";
