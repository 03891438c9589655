/**
 * A bucket's keys as S3 keys and back: the prefix before them, and no NUL in them.
 *
 * S3 stores refuse a NUL. Escaping keeps the order of UTF-8 bytes and keeps prefixes prefixes, so listings stay right:
 * NUL becomes 01 01, 01 becomes 01 02, and every other character stays as it is. No key of Moonport's own holds either.
 */
import { MoonportError } from "../../errors.js";
import { checkBucketKey } from "../bucket-key.js";

const S3_KEY_BYTES_MAX = 1_024;

const NUL_ESCAPED = "\u0001\u0001";
const ONE_ESCAPED = "\u0001\u0002";

export class S3Keys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** @throws MoonportError `bad_key`, also when only the prefix makes it too long */
  toS3(key: string): string {
    checkBucketKey(key);
    const full = this.textToS3(key);
    const bytes = Buffer.byteLength(full, "utf8");
    if (bytes > S3_KEY_BYTES_MAX) {
      throw MoonportError.of(
        "bad_key",
        `with its prefix the key has ${bytes} bytes, and S3 takes ${S3_KEY_BYTES_MAX}`,
        {
          hint: "a shorter prefix in the bucket's URL leaves more room for keys",
        },
      );
    }
    return full;
  }

  /** A listing's prefix or start, which may be empty or no key by itself. */
  textToS3(text: string): string {
    return this.#prefix + text.replaceAll("\u0001", ONE_ESCAPED).replaceAll("\0", NUL_ESCAPED);
  }

  fromS3(full: string): string {
    return full.slice(this.#prefix.length).replaceAll(NUL_ESCAPED, "\0").replaceAll(ONE_ESCAPED, "\u0001");
  }
}

/** An XML document, such as DeleteObjects sends, cannot carry these at all, or not unchanged. */
export function fitsXml(key: string): boolean {
  return !/[\p{Cc}\uFFFE\uFFFF]/u.test(key);
}
