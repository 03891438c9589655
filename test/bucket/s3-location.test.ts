/** S3 URLs and S3 keys: what is taken, what is refused and how. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fitsXml, S3Keys } from "../../src/bucket/s3/s3-keys.js";
import { parseS3Url, s3Name } from "../../src/bucket/s3/s3-location.js";

describe("an S3 URL", () => {
  test("of a bucket alone has AWS's own ways", () => {
    expect(parseS3Url("s3://my-bucket")).toEqual({
      bucket: "my-bucket",
      prefix: "",
      endpoint: undefined,
      region: undefined,
      pathStyle: false,
      ifMatchQuotes: true,
      checksums: "when-supported",
    });
  });

  test("says everything else in its options", () => {
    const url =
      "s3://b.1/a/b%20c?endpoint=http://127.0.0.1:7480&region=auto&pathStyle=false&ifMatchQuotes=false&checksums=when-required";
    expect(parseS3Url(url)).toEqual({
      bucket: "b.1",
      prefix: "a/b c/",
      endpoint: "http://127.0.0.1:7480",
      region: "auto",
      pathStyle: false,
      ifMatchQuotes: false,
      checksums: "when-required",
    });
  });

  test("with an endpoint means path style, unless it says otherwise", () => {
    expect(parseS3Url("s3://bbb?endpoint=https://s3.example").pathStyle).toBe(true);
    expect(parseS3Url("s3://bbb?endpoint=https%3A%2F%2Fs3.example%2F").endpoint).toBe("https://s3.example");
  });

  test.each(["s3://bbb/a", "s3://bbb/a/", "s3://bbb/a//"])("%s has one prefix, with one slash at its end", (url) => {
    expect(parseS3Url(url).prefix).toBe("a/");
    expect(s3Name(parseS3Url(url))).toBe("s3://bbb/a");
  });

  test.each([
    ["s3:bbb", /two slashes/, /s3:\/\/BUCKET/],
    ["s3://", /names no bucket/, /s3:\/\/BUCKET/],
    ["s3:///a", /names no bucket/, /s3:\/\/BUCKET/],
    ["s3://Bucket", /lower-case/, /s3:\/\/BUCKET/],
    ["s3://bb", /3 to 63/, /s3:\/\/BUCKET/],
    ["s3://bbb:9000/a", /3 to 63/, /s3:\/\/BUCKET/],
    ["s3://bbb//a", /empty part/, /s3:\/\/BUCKET/],
    ["s3://bbb/a/../b", /dots alone/, /s3:\/\/BUCKET/],
    ["s3://bbb/a%0Ab", /control characters/, /s3:\/\/BUCKET/],
    ["s3://bbb/a%2", /two hex digits/, /%25/],
    ["s3://bbb/a#b", /after a #.*%23/, /s3:\/\/BUCKET/],
    ["s3://bbb?regio=x", /no option "regio"/, /did you mean region\?/],
    ["s3://bbb?ifmatchquotes=false", /no option/, /did you mean ifMatchQuotes\?/],
    ["s3://bbb?zzz=1", /no option "zzz"/, /endpoint, region, pathStyle/],
    ["s3://bbb?region=a&region=b", /region twice/, /s3:\/\/BUCKET/],
    ["s3://bbb?region=", /not a region/, /eu-central-1/],
    ["s3://bbb?pathStyle=yes", /true or false/, /s3:\/\/BUCKET/],
    ["s3://bbb?pathStyle", /true or false/, /s3:\/\/BUCKET/],
    ["s3://bbb?checksums=never", /when-supported or when-required/, /s3:\/\/BUCKET/],
    ["s3://bbb?endpoint=host:9000", /not HTTP/, /https:\/\/host/],
    ["s3://bbb?endpoint=nowhere", /not a URL/, /https:\/\/host/],
    ["s3://bbb?endpoint=http://h/bucket", /more than a host/, /https:\/\/host/],
    ["s3://a:b@bbb", /holds credentials/, /AWS_ACCESS_KEY_ID/],
    ["s3://bbb?accessKeyId=x", /looks like a secret, accessKeyId/, /AWS_ACCESS_KEY_ID/],
    ["s3://bbb?endpoint=http://a:b@h", /endpoint holds credentials/, /AWS_ACCESS_KEY_ID/],
  ])("%s is refused with a hint", (url, message, hint) => {
    expect(() => parseS3Url(url)).toThrow(
      expect.objectContaining({
        code: "bad_option",
        message: expect.stringMatching(message),
        hint: expect.stringMatching(hint),
      }),
    );
  });
});

describe("S3 keys", () => {
  const text = fc.string({
    unit: fc.constantFrom("\0", "\u0001", "\u0002", "a", "/", "é", "\uFFFF", "😀"),
    maxLength: 12,
  });
  const keys = new S3Keys("p/");

  test("come back as they were, hold no NUL, and keep the order of bytes and what is a prefix of what", () => {
    fc.assert(
      fc.property(text, text, (left, right) => {
        const [one, other] = [keys.textToS3(left), keys.textToS3(right)];
        expect(keys.fromS3(one)).toBe(left);
        expect(one).not.toContain("\0");
        expect(Math.sign(Buffer.compare(Buffer.from(one), Buffer.from(other)))).toBe(
          Math.sign(Buffer.compare(Buffer.from(left), Buffer.from(right))),
        );
        expect(one.startsWith(other)).toBe(left.startsWith(right));
      }),
    );
  });

  test("are as long as S3 takes them, the prefix included", () => {
    expect(keys.toS3("x".repeat(1_022))).toHaveLength(1_024);
    expect(() => keys.toS3("x".repeat(1_023))).toThrow(expect.objectContaining({ code: "bad_key" }));
  });

  test("that no XML document can carry are known", () => {
    expect(["a\nb", "a\u0001", "\uFFFF", "\u0085"].filter(fitsXml)).toEqual([]);
    expect(["a b", "<&>", "é", "😀"].filter((key) => !fitsXml(key))).toEqual([]);
  });
});
