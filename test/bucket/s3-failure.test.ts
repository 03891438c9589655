/** What is concluded from each way in which an S3 request can fail. */
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { failedRequest, outcomeOf, S3RequestFailed, s3Failure } from "../../src/bucket/s3/s3-failure.js";
import { parseS3Url } from "../../src/bucket/s3/s3-location.js";

const location = parseS3Url("s3://my-bucket/p");

/** As the SDK throws an answer's error document. */
function answer(status: number, name = "Error", fields: Record<string, unknown> = {}): Error {
  const { headers, ...others } = fields;
  return Object.assign(new Error(`said ${name}`), {
    name,
    $metadata: { httpStatusCode: status, requestId: "r-1" },
    $response: { statusCode: status, headers: headers ?? {} },
    ...others,
  });
}

function read(thrown: unknown, sent = true) {
  return s3Failure(thrown, { sent, wallMs: 0, location });
}

describe("an answer", () => {
  test.each([
    [404, "NoSuchKey", "absent", "refused"],
    [412, "PreconditionFailed", "condition", "refused"],
    [412, "Error", "condition", "refused"],
    [409, "ConditionalRequestConflict", "conflict", "refused"],
    [409, "OperationAborted", "conflict", "refused"],
    [404, "NoSuchBucket", "refused", "refused"],
    [404, "Error", "refused", "refused"],
    [404, "NoSuchUpload", "refused", "refused"],
    [400, "BadDigest", "refused", "refused"],
    [400, "RequestTimeout", "refused", "refused"],
    [403, "AccessDenied", "refused", "refused"],
    [403, "RequestTimeTooSkewed", "refused", "refused"],
    [411, "MissingContentLength", "refused", "refused"],
    [301, "PermanentRedirect", "refused", "refused"],
    [501, "NotImplemented", "refused", "refused"],
    [503, "SlowDown", "throttled", "refused"],
    [429, "TooManyRequests", "throttled", "refused"],
    [503, "ServiceUnavailable", "throttled", "unknown"],
    [503, "Error", "throttled", "unknown"],
    [429, "Error", "throttled", "unknown"],
    [408, "Error", "unknown", "unknown"],
    [499, "Error", "unknown", "unknown"],
    [500, "InternalError", "unknown", "unknown"],
    [500, "UnknownError", "unknown", "unknown"],
    [502, "Error", "unknown", "unknown"],
    [504, "Error", "unknown", "unknown"],
    [200, "SyntaxError", "unknown", "unknown"],
  ] as const)("of %i %s is %s, and of a write %s", (status, code, kind, outcome) => {
    const failure = read(answer(status, code));
    expect(failure).toMatchObject({ kind, status });
    expect(outcomeOf(failure)).toBe(outcome);
  });

  test.each([
    [404, "NoSuchBucket", {}, /make the bucket my-bucket/],
    [403, "InvalidAccessKeyId", {}, /AWS_ACCESS_KEY_ID/],
    [403, "SignatureDoesNotMatch", {}, /AWS_SECRET_ACCESS_KEY/],
    [403, "AccessDenied", {}, /s3:PutObject/],
    [403, "Error", {}, /refuses these credentials/],
    [501, "NotImplemented", {}, /no conditional writes/],
    [411, "Error", {}, /checksums=when-required/],
    [400, "AuthorizationHeaderMalformed", { Region: "eu-west-1" }, /region=eu-west-1/],
    [301, "PermanentRedirect", { headers: { "x-amz-bucket-region": "eu-west-2" } }, /region=eu-west-2/],
    [307, "TemporaryRedirect", {}, /set region=/],
  ] as const)("of %i %s needs an operator, who is told what to do", (status, code, fields, hint) => {
    expect(read(answer(status, code, fields))).toMatchObject({
      needsOperator: true,
      hint: expect.stringMatching(hint),
    });
  });

  test("about the clock tells of it, and is not for an operator alone: the next request is signed right", () => {
    const failure = read(answer(403, "RequestTimeTooSkewed"));
    expect(failure.hint).toContain("clock");
    expect(failure.needsOperator).toBeUndefined();
  });

  test("that asks for time says how long", () => {
    const failure = read(answer(503, "SlowDown", { headers: { "retry-after": "7" } }));
    expect(failure).toMatchObject({ kind: "throttled", retryAfterMs: 7_000 });
    const error = failedRequest("write of k", new S3RequestFailed(failure, undefined), "refused");
    expect(error).toMatchObject({
      retryAfterMs: 7_000,
      details: { throttled: true, code: "SlowDown", requestId: "r-1" },
    });
  });
});

describe("no answer", () => {
  const reset = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" });
  const refusedConnection = Object.assign(new Error("connect"), { code: "ECONNREFUSED", syscall: "connect" });
  const noHost = Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND", syscall: "getaddrinfo" });
  const allRefused = Object.assign(new AggregateError([refusedConnection, refusedConnection]), {
    code: "ECONNREFUSED",
  });
  const oneReset = Object.assign(new AggregateError([refusedConnection, reset]), { code: "ECONNREFUSED" });
  const slowConnect = Object.assign(new Error("the request socket did not establish a connection with the server"), {
    name: "TimeoutError",
  });
  const badCertificate = Object.assign(new Error("certificate"), { code: "CERT_HAS_EXPIRED" });
  const noCredentials = Object.assign(new Error("none"), { name: "CredentialsProviderError" });

  test.each([
    ["a connection that broke", reset, true, "unknown"],
    ["an error nobody knows", new Error("?"), true, "unknown"],
    ["not even an error", "?", true, "unknown"],
    ["anything before the request left", new Error("?"), false, "refused"],
    ["a connection refused", refusedConnection, true, "refused"],
    ["a host without an address", noHost, true, "refused"],
    ["every address refusing", allRefused, true, "refused"],
    ["one address of several breaking", oneReset, true, "unknown"],
    ["a connection that was not made in time", slowConnect, true, "refused"],
    ["a certificate that is not trusted", badCertificate, true, "refused"],
    ["no credentials", noCredentials, false, "refused"],
  ])("because of %s leaves a write %s", (_, thrown, sent, outcome) => {
    expect(outcomeOf(read(thrown, sent as boolean))).toBe(outcome);
  });

  test("is told on one line, and of several addresses by what each said", () => {
    expect(read(new Error("write EPROTO:\nssl3_get_record:\n")).message).toBe("write EPROTO: ssl3_get_record:");
    const refused = (address: string): Error => Object.assign(new Error(`connect ${address}`), { syscall: "connect" });
    const several = Object.assign(new AggregateError([refused("::1"), refused("127.0.0.1")]), { code: "ECONNREFUSED" });
    expect(read(several).message).toBe("connect ::1; connect 127.0.0.1");
    expect(read({}).message).toBe("no answer");
  });

  test("where no connection was made says with whom", () => {
    const withEndpoint = parseS3Url("s3://my-bucket/p?endpoint=http://127.0.0.1:1");
    const failure = s3Failure(refusedConnection, { sent: true, wallMs: 0, location: withEndpoint });
    expect(failure).toMatchObject({ hint: expect.stringContaining("no connection to http://127.0.0.1:1:") });
    expect(read(refusedConnection)).toMatchObject({ hint: expect.stringContaining("the store of my-bucket") });
  });

  test("because of credentials or a certificate needs an operator, a refused connection may mend itself", () => {
    expect(read(noCredentials, false)).toMatchObject({
      needsOperator: true,
      hint: expect.stringContaining("AWS_PROFILE"),
    });
    expect(read(badCertificate)).toMatchObject({ needsOperator: true });
    expect(read(refusedConnection).needsOperator).toBeUndefined();
  });
});

test("what an error carries along is its text, not the request with its signature or its socket", () => {
  const thrown = answer(403, "AccessDenied", { $response: { statusCode: 403, headers: { authorization: "HIDDEN" } } });
  const error = failedRequest("write of k", new S3RequestFailed(read(thrown), thrown), "refused");
  expect(inspect(thrown, { depth: 9, showHidden: true })).toContain("HIDDEN");
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain("HIDDEN");
  expect((error.cause as Error).message).toBe("said AccessDenied");
});
