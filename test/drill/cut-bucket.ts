/** A node's line to its bucket: once cut, no request leaves and no answer arrives. What is on its way still lands. */
import type { Bucket } from "../../src/bucket/bucket.js";

/** @param bucket is started and stopped by whoever made it */
export function cutWith(bucket: Bucket, isCut: () => boolean): Bucket {
  const carry = <T>(request: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      if (isCut()) return;
      request().then(
        (answer) => isCut() || resolve(answer),
        (error: unknown) => isCut() || reject(error),
      );
    });
  return {
    name: bucket.name,
    atomic: bucket.atomic,
    start: async () => {},
    stop: async () => {},
    get: (key) => carry(() => bucket.get(key)),
    write: (writes) => carry(() => bucket.write(writes)),
    writeStream: (key, parts) => carry(() => bucket.writeStream(key, parts)),
    readStream: (key) => carry(() => bucket.readStream(key)),
    list: (prefix, options) => carry(() => bucket.list(prefix, options)),
    delete: (keys) => carry(() => bucket.delete(keys)),
  };
}
