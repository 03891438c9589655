import net from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { decodeAwsChunked } from "./aws-chunked.js";
import { describeOnRealS3 } from "./real-s3.js";
import { type S3Keys, type S3Request, s3Request } from "./s3-request.js";
import { type S3Stub, type S3StubOptions, startS3Stub } from "./s3-stub.js";

const KEYS: S3Keys = { accessKeyId: "any", secretAccessKey: "any" };

/** What a test sees of an answer; bodies of errors shrink to their code. */
interface Seen {
  readonly status: number;
  readonly text: string;
  readonly etag: string;
}

type Send = (method: string, path: string, more?: Partial<S3Request>) => Promise<Seen>;

function sender(endpoint: string, bucket: string, keys = KEYS): Send {
  return async (method, path, more = {}) => {
    const { status, body, headers } = await s3Request(endpoint, { method, path: `/${bucket}${path}`, keys, ...more });
    const code = /<Code>(\w+)<\/Code>/.exec(String(body))?.[1];
    return { status, text: code ?? String(body), etag: headers.etag ?? "" };
  };
}

async function scene(manners: S3StubOptions["manners"] = {}): Promise<{ stub: S3Stub; send: Send }> {
  const stub = await startS3Stub({ buckets: ["b"], manners });
  onTestFinished(() => stub.stop());
  return { stub, send: sender(stub.endpoint, "b") };
}

function put(send: Send, key: string, body: string, headers: Record<string, string> = {}): Promise<Seen> {
  return send("PUT", key, { body, headers });
}

function textsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map(([, found]) => found ?? "");
}

/** What the stub and a real store must say alike. */
async function sameSteps(send: Send): Promise<unknown[]> {
  const seen: Seen[] = [];
  const step = async (answer: Promise<Seen>) => void seen.push(await answer);
  const { etag } = await put(send, "/a%20b%2Bc/%C3%A9", "hello");
  const bare = etag.replaceAll('"', "");
  await step(send("GET", "/a%20b%2Bc/%C3%A9"));
  await step(send("GET", "/none"));
  await step(send("HEAD", "/none"));
  await step(send("GET", "/a%20b%2Bc/%C3%A9", { headers: { range: "bytes=1-3" } }));
  await step(send("GET", "/a%20b%2Bc/%C3%A9", { headers: { range: "bytes=1-100" } }));
  await step(send("GET", "/a%20b%2Bc/%C3%A9", { headers: { range: "bytes=-2" } }));
  await step(send("GET", "/a%20b%2Bc/%C3%A9", { headers: { range: "bytes=9-" } }));
  await step(send("GET", "/a%20b%2Bc/%C3%A9", { headers: { "if-match": '"0"' } }));
  await step(put(send, "/a%20b%2Bc/%C3%A9", "no", { "if-none-match": "*" }));
  await step(put(send, "/new", "yes", { "if-none-match": "*" }));
  await step(put(send, "/a%20b%2Bc/%C3%A9", "no", { "if-match": "0123" }));
  await step(put(send, "/a%20b%2Bc/%C3%A9", "yes", { "if-match": bare }));
  await step(put(send, "/a%20b%2Bc/%C3%A9", "stale", { "if-match": bare }));
  await step(put(send, "/md5", "x", { "content-md5": "AAAAAAAAAAAAAAAAAAAAAA==" }));
  await step(send("DELETE", "/new"));
  await step(send("DELETE", "/new"));
  await step(send("PUT", "/big?partNumber=1&uploadId=none", { body: "x" }));
  return seen.map(({ status, text: found, etag: version }) =>
    status === 200 ? [status, found, version] : [status, found],
  );
}

describe("the S3 stub", () => {
  it("lists in the order of UTF-8 bytes, in pages", async () => {
    const { send } = await scene();
    // In UTF-16 the last two would change places.
    const keys = ["p/a", "p/a/b", "p/b", "p/é", "p/\uffff", "p/\u{1f600}"];
    for (const key of [...keys].reverse().concat("q/other")) await put(send, `/${encodeURIComponent(key)}`, "x");
    const first = (await send("GET", "?list-type=2&prefix=p/&max-keys=4")).text;
    expect(textsOf(first, "Key")).toEqual(keys.slice(0, 4));
    const [token] = textsOf(first, "NextContinuationToken");
    const second = (await send("GET", `?list-type=2&prefix=p/&continuation-token=${token}`)).text;
    expect(textsOf(second, "Key")).toEqual(keys.slice(4));
    expect(textsOf(second, "IsTruncated")).toEqual(["false"]);
    const after = (await send("GET", "?list-type=2&prefix=p/&start-after=p%2Fb&encoding-type=url")).text;
    expect(textsOf(after, "Key")).toEqual(keys.slice(3).map((key) => encodeURIComponent(key).replace("%2F", "/")));
  });

  it("deletes many at once, when their checksum comes along", async () => {
    const { stub, send } = await scene();
    for (const key of ["a", "b&c", "d"]) await put(send, `/${encodeURIComponent(key)}`, "x");
    const body = "<Delete><Object><Key>a</Key></Object><Object><Key>b&amp;c</Key></Object></Delete>";
    expect(await send("POST", "?delete", { body })).toMatchObject({ status: 400, text: "InvalidRequest" });
    const answer = await send("POST", "?delete", { body, headers: { "x-amz-checksum-crc32": "AAAAAA==" } });
    expect(textsOf(answer.text, "Key")).toEqual(["a", "b&amp;c"]);
    expect(stub.keys("b")).toEqual(["d"]);
  });

  it("puts parts together, refuses small ones, lists and aborts uploads", async () => {
    const { stub, send } = await scene();
    const begin = async () => textsOf((await send("POST", "/big?uploads")).text, "UploadId")[0];
    const part = (id: string | undefined, number: number, body: string) =>
      send("PUT", `/big?partNumber=${number}&uploadId=${id}`, { body });
    const complete = (id: string | undefined, etags: readonly string[]) => {
      const parts = etags.map(
        (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
      );
      return send("POST", `/big?uploadId=${id}`, { body: `<X>${parts.join("").replaceAll('"', "&quot;")}</X>` });
    };
    const small = await begin();
    const smallEtags = [(await part(small, 1, "a")).etag, (await part(small, 2, "b")).etag];
    expect(await complete(small, smallEtags)).toMatchObject({ status: 400, text: "EntityTooSmall" });
    expect(await complete(small, ['"0"'])).toMatchObject({ status: 400, text: "InvalidPart" });
    expect(textsOf((await send("GET", "?uploads&prefix=b")).text, "UploadId")).toEqual([small]);
    expect((await send("DELETE", `/big?uploadId=${small}`)).status).toBe(204);
    expect(stub.openUploads("b")).toEqual([]);

    const id = await begin();
    const large = "x".repeat(5 * 1024 * 1024);
    const etags = [(await part(id, 1, large)).etag, (await part(id, 2, "end")).etag];
    const completed = await complete(id, etags);
    expect(textsOf(completed.text, "ETag")[0]).toMatch(/^&quot;[0-9a-f]{32}-2&quot;$/);
    expect(String(stub.bytes("b", "big"))).toBe(`${large}end`);
  });

  it("as AWS does: If-Match on an absent key is 404, quotes or none, and a race is a conflict", async () => {
    const { stub, send } = await scene({ conflictsInRaces: true });
    expect(await put(send, "/k", "x", { "if-match": '"0"' })).toMatchObject({ status: 404, text: "NoSuchKey" });
    stub.manners.ifMatchAbsentStatus = 412;
    expect((await put(send, "/k", "x", { "if-match": '"0"' })).status).toBe(412);
    const { etag } = await put(send, "/k", "one");

    const slow = await putInTwoHalves(stub, "/b/k", etag);
    expect((await put(send, "/k", "two", { "if-match": etag })).status).toBe(200);
    const conflict = await slow.finish();
    expect(conflict).toMatch(/^HTTP\/1\.1 409 /);
    expect(conflict).toContain("<Code>ConditionalRequestConflict</Code>");
    expect(String(stub.bytes("b", "k"))).toBe("two");
  });

  it.each([
    [false, "PreconditionFailed"],
    [true, "ConditionalRequestConflict"],
  ])("gives eight creators that come together one winner (conflicts in races: %s)", async (conflictsInRaces, loss) => {
    const { stub, send } = await scene({ conflictsInRaces });
    stub.gather("put", 8);
    const bodies = Array.from({ length: 8 }, (_, index) => `${index}`);
    const all = await Promise.all(bodies.map((body) => put(send, "/k", body, { "if-none-match": "*" })));
    expect(all.map(({ text: found }) => found).sort()).toEqual(["", ...Array(7).fill(loss)]);
    const winner = all.findIndex(({ status }) => status === 200);
    expect(String(stub.bytes("b", "k"))).toBe(bodies[winner]);
  });

  it.each([
    ["kept", [412, 412, "one"]],
    ["ignored", [200, 200, "three"]],
    ["create_only", [412, 200, "three"]],
    ["not_implemented", [501, 501, "one"]],
  ] as const)("conditions %s", async (conditions, expected) => {
    const { stub, send } = await scene({ conditions });
    await put(send, "/k", "one");
    const create = await put(send, "/k", "two", { "if-none-match": "*" });
    const update = await put(send, "/k", "three", { "if-match": '"0"' });
    expect([create.status, update.status, String(stub.bytes("b", "k"))]).toEqual(expected);
  });

  it("takes If-Match in the form that it is told to", async () => {
    const { stub, send } = await scene();
    const accepted = async (form: (etag: string) => string) => {
      const { etag } = await put(send, "/k", "x");
      return (await put(send, "/k", "x", { "if-match": form(etag) })).status === 200;
    };
    const both = async () => [await accepted((etag) => etag), await accepted((etag) => etag.replaceAll('"', ""))];
    expect(await both()).toEqual([true, true]);
    stub.manners.ifMatchQuotes = "required";
    expect(await both()).toEqual([true, false]);
    stub.manners.ifMatchQuotes = "forbidden";
    expect(await both()).toEqual([false, true]);
  });

  it("refuses a clock that is off by a quarter of an hour, and tells its own", async () => {
    const { stub, send } = await scene({ clockAheadMs: 20 * 60_000 });
    expect(await put(send, "/k", "x")).toMatchObject({ status: 403, text: "RequestTimeTooSkewed" });
    expect(stub.keys("b")).toEqual([]);
    const { headers } = await s3Request(stub.endpoint, { method: "GET", path: "/b/k" });
    const aheadMs = Date.parse(String(headers.date)) - Date.now();
    expect(Math.abs(aheadMs - 20 * 60_000)).toBeLessThan(5 * 60_000);
    stub.manners.clockAheadMs = 14 * 60_000;
    expect((await put(send, "/k", "x")).status).toBe(200);
  });

  it("answers what a test says: so many times, or until taken back, and carries the request out if told to", async () => {
    const { stub, send } = await scene();
    stub.next("put", { status: 503, code: "SlowDown", headers: { "retry-after": "3" } }, 2);
    stub.next((request) => request.key === "kept", { status: 500, code: "InternalError", applies: true });
    const off = stub.always("get", { status: 403, code: "AccessDenied" });
    expect(await put(send, "/k", "x".repeat(1_000_000))).toMatchObject({ status: 503, text: "SlowDown" });
    const { headers } = await s3Request(stub.endpoint, { method: "PUT", path: "/b/k" });
    expect(headers["retry-after"]).toBe("3");
    expect(stub.keys("b")).toEqual([]);
    expect((await put(send, "/kept", "x")).status).toBe(500);
    expect(stub.keys("b")).toEqual(["kept"]);
    expect((await send("GET", "/kept")).text).toBe("AccessDenied");
    off();
    expect((await send("GET", "/kept")).text).toBe("x");
    expect(stub.requests.map(({ kind }) => kind)).toEqual(["put", "put", "put", "get", "get"]);
  });

  it("can fail at the end of an upload with a 200", async () => {
    const { stub, send } = await scene({ completesWithError: true });
    const id = textsOf((await send("POST", "/big?uploads")).text, "UploadId")[0];
    const { etag } = await send("PUT", `/big?partNumber=1&uploadId=${id}`, { body: "x" });
    const body = `<X><Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part></X>`;
    const complete = () => send("POST", `/big?uploadId=${id}`, { body });
    expect(await complete()).toMatchObject({ status: 200, text: "InternalError" });
    expect(stub.keys("b")).toEqual([]);
    stub.manners.completesWithError = false;
    expect((await complete()).text).toContain("CompleteMultipartUploadResult");
  });

  it("knows buckets that were made, and no others", async () => {
    const { stub } = await scene();
    const other = sender(stub.endpoint, "other");
    expect(await put(other, "/k", "x")).toMatchObject({ status: 404, text: "NoSuchBucket" });
    expect((await other("HEAD", "")).status).toBe(404);
    expect((await other("PUT", "")).status).toBe(200);
    expect((await other("HEAD", "")).status).toBe(200);
  });

  it("reads bodies that come framed with a checksum behind them", () => {
    const headers = { "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER" };
    const framed = Buffer.from(
      "5\r\nhello\r\na;chunk-signature=0\r\n\r\n, world\r\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
    );
    expect(String(decodeAwsChunked(headers, framed))).toBe("hello\r\n, world\r");
    expect(String(decodeAwsChunked({}, framed))).toBe(String(framed));
    expect(() => decodeAwsChunked(headers, Buffer.from("hello"))).toThrow("not framed");
  });
});

/** A conditional write that the stub has begun to read; `finish` sends the rest and gives the raw answer. */
async function putInTwoHalves(stub: S3Stub, path: string, ifMatch: string): Promise<{ finish(): Promise<string> }> {
  const before = stub.requests.length;
  const socket = net.connect(stub.port, "127.0.0.1");
  const head = [`PUT ${path} HTTP/1.1`, "host: raw", "connection: close", "content-length: 4", `if-match: ${ifMatch}`];
  socket.write(`${head.join("\r\n")}\r\n\r\nha`);
  await expect.poll(() => stub.requests.length).toBe(before + 1);
  return {
    finish: () => {
      socket.write("lf");
      return text(socket);
    },
  };
}

describeOnRealS3("the S3 stub and a real server", (s3) => {
  it("say the same to the same requests", async () => {
    const { send } = await scene({ ifMatchAbsentStatus: 412 });
    const { endpoint, bucket, keys } = s3();
    const real = await sameSteps(sender(endpoint, bucket, keys));
    expect(await sameSteps(send)).toEqual(real);
  });
});
