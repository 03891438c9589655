/** The real S3 server of a benchmark's run: started when the first row asks for it, ended with the run. */
import {
  createBucket,
  INSTALL_COMMAND,
  missingPrograms,
  type Radosgw,
  type RadosgwOptions,
  radosgwBucketUrl,
  startRadosgw,
} from "../../test/support/radosgw.js";

const BUCKET = "bench";

export type S3Store = NonNullable<RadosgwOptions["store"]>;

export class S3Server {
  readonly #store: S3Store;
  #started: Promise<Radosgw> | undefined;

  /** @throws Error saying how to get what is not installed */
  constructor(store: S3Store) {
    const missing = missingPrograms();
    if (missing.length > 0) {
      throw new Error(
        `these rows need a real S3 server, and there is no ${missing.join(", ")} here; on Debian or Ubuntu:\n  ${INSTALL_COMMAND}`,
      );
    }
    this.#store = store;
  }

  /** The URL of a bucket in which nothing but this prefix is used. */
  async bucketUrl(prefix: string): Promise<string> {
    this.#started ??= this.#start();
    const { endpoint } = await this.#started;
    return radosgwBucketUrl(endpoint, BUCKET, prefix);
  }

  async stop(): Promise<void> {
    const started = await this.#started?.catch(() => undefined);
    await started?.stop();
  }

  async #start(): Promise<Radosgw> {
    const server = await startRadosgw({ store: this.#store });
    // Where the SDK looks for them.
    Object.assign(process.env, server.env);
    await createBucket(server, BUCKET);
    return server;
  }
}
