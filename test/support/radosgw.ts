/**
 * A real S3 server for tests, benchmarks and drills: Ceph's gateway (radosgw) with one monitor and one store behind it,
 * all on 127.0.0.1. Test files ask `real-s3.ts` for the one server of their run instead of starting their own.
 */
export interface S3Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface RadosgwOptions {
  /** `memstore` keeps objects in memory; `bluestore` in a file of the server's folder, for long runs. Default `memstore`. */
  readonly store?: "memstore" | "bluestore";
}

export interface Gateway {
  /** `http://127.0.0.1:PORT`; the same after a restart. */
  readonly endpoint: string;
  readonly host: string;
  readonly port: number;
  /** SIGKILL. What was acknowledged stays: the store behind it lives on. */
  kill(): Promise<void>;
  /** Starts it again after `kill`, on the same port. */
  restart(): Promise<void>;
  /** Connections are accepted and nothing is answered, until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  stop(): Promise<void>;
}

export interface Radosgw extends Gateway {
  readonly keys: S3Keys;
  /** A second gateway over the same store, to be killed while others use the first. */
  startGateway(): Promise<Gateway>;
}

/** What has to be installed for {@link startRadosgw} and is not. */
export function missingPrograms(): readonly string[] {
  throw new Error("not built yet");
}

/** @throws Error with the end of the log of whatever did not start in time */
export function startRadosgw(_options: RadosgwOptions = {}): Promise<Radosgw> {
  throw new Error("not built yet");
}
