/**
 * What is known of an S3 request that failed, read from its answer or from the lack of one.
 *
 * The question is always the same: may the request have had its effect? Only an answer that proves the contrary counts as
 * a refusal: S3's own refusals (4xx), and connections that were never made. A lost connection, a time-out, a 5xx, an answer
 * that is no answer of S3's: nobody knows.
 */
import type { MoonportError } from "../../errors.js";
import { bucketError, type FailureOutcome } from "../bucket.js";
import { retryAfterMs } from "./retry-after.js";
import type { S3Location } from "./s3-location.js";

export type S3Failure =
  /** 404: there is no such key. */
  | ({ readonly kind: "absent" } & Told)
  /** 412: the condition does not hold; nothing was written. */
  | ({ readonly kind: "condition" } & Told)
  /** 409: it raced another write of the key; nothing was written, and the same request may be sent again. */
  | ({ readonly kind: "conflict" } & Told)
  /** The store asks for fewer requests. Only its own word for that proves that nothing was done. */
  | ({ readonly kind: "throttled"; readonly outcome: FailureOutcome; readonly retryAfterMs: number | undefined } & Told)
  | ({ readonly kind: "refused" } & Told)
  | ({ readonly kind: "unknown" } & Told);

interface Told {
  readonly message: string;
  /** S3's code, or the system's. */
  readonly code: string | undefined;
  readonly status: number | undefined;
  /** By which the store's operator finds the request. */
  readonly requestId?: string;
  readonly hint?: string;
  /** Trying again changes nothing until somebody changes something. */
  readonly needsOperator?: true;
}

export class S3RequestFailed extends Error {
  readonly failure: S3Failure;

  constructor(failure: S3Failure, thrown: unknown) {
    super(failure.message, { cause: withoutSecrets(thrown) });
    this.failure = failure;
  }
}

/** The SDK's errors hold the request with its signature, and its socket: neither belongs into a log, or stays in memory. */
function withoutSecrets(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return thrown;
  const slim = new Error(thrown.message);
  slim.name = thrown.name;
  if (thrown.stack !== undefined) slim.stack = thrown.stack;
  return slim;
}

/** The error that leaves the bucket. */
export function failedRequest(
  what: string,
  { failure, cause }: S3RequestFailed,
  outcome: FailureOutcome,
): MoonportError {
  const { message, hint, code, status, requestId, needsOperator } = failure;
  const askedMs = failure.kind === "throttled" ? failure.retryAfterMs : undefined;
  return bucketError(outcome, `${what}: ${message}`, {
    cause,
    ...(hint !== undefined && { hint }),
    ...(askedMs !== undefined && { retryAfterMs: askedMs }),
    details: {
      ...(code !== undefined && { code }),
      ...(status !== undefined && { status }),
      ...(requestId !== undefined && { requestId }),
      ...(failure.kind === "throttled" && { throttled: true }),
      ...(needsOperator && { needsOperator }),
    },
  });
}

export function outcomeOf(failure: S3Failure): FailureOutcome {
  if (failure.kind === "throttled") return failure.outcome;
  return failure.kind === "unknown" ? "unknown" : "refused";
}

export interface FailureContext {
  /** Whether the request was handed to a connection. */
  readonly sent: boolean;
  readonly wallMs: number;
  readonly location: S3Location;
}

/** What the SDK throws, as far as it is looked at. */
interface ThrownBySdk {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly syscall?: string;
  readonly errors?: readonly ThrownBySdk[];
  readonly Region?: string;
  readonly $metadata?: { readonly httpStatusCode?: number; readonly requestId?: string };
  readonly $response?: { readonly statusCode?: number; readonly headers?: Readonly<Record<string, string>> };
}

export function s3Failure(thrown: unknown, context: FailureContext): S3Failure {
  const error = (typeof thrown === "object" && thrown !== null ? thrown : { message: String(thrown) }) as ThrownBySdk;
  const status = error.$response?.statusCode ?? error.$metadata?.httpStatusCode;
  return status === undefined ? withoutAnswer(error, context) : answered(status, error, context);
}

function answered(status: number, error: ThrownBySdk, context: FailureContext): S3Failure {
  const code = s3Code(error);
  const requestId = error.$metadata?.requestId;
  const told: Told = { status, code, message: answerText(status, code, error), ...(requestId && { requestId }) };
  // S3 says so where a read before the write saw a condition fail, and where the write itself did.
  if (status === 412) return { kind: "condition", ...told };
  if (status === 409) return { kind: "conflict", ...told };
  if (status === 404 && (code === "NoSuchKey" || code === "NotFound")) return { kind: "absent", ...told };
  const headers = error.$response?.headers ?? {};
  if (isThrottle(status, code)) {
    return {
      kind: "throttled",
      outcome: throttleOutcome(code),
      retryAfterMs: retryAfterMs(headers["retry-after"], context.wallMs),
      ...told,
    };
  }
  if (!provesRefusal(status, code)) return { kind: "unknown", ...told };
  return { kind: "refused", ...told, ...advice(status, code, error.Region ?? headers["x-amz-bucket-region"], context) };
}

/** S3's code in its error document; the SDK's own names for what it could not read are none. */
function s3Code(error: ThrownBySdk): string | undefined {
  const { name } = error;
  return name === undefined || NO_CODES.has(name) ? undefined : name;
}

const NO_CODES = new Set(["Error", "TypeError", "SyntaxError", "UnknownError", "Unknown", "S3ServiceException"]);

function answerText(status: number, code: string | undefined, error: ThrownBySdk): string {
  const text = code === undefined ? undefined : error.message;
  const said = text === undefined || text === "UnknownError" || text === code ? "" : `: ${text}`;
  return `${status} ${code ?? "without a code of S3's"}${said}`;
}

const THROTTLE_CODES = new Set([
  "SlowDown",
  "RequestLimitExceeded",
  "TooManyRequests",
  "TooManyRequestsException",
  "Throttling",
  "ThrottlingException",
  "BandwidthLimitExceeded",
]);

function isThrottle(status: number, code: string | undefined): boolean {
  return status === 429 || status === 503 || (code !== undefined && THROTTLE_CODES.has(code));
}

/**
 * S3 throttles before it does anything and says so by code: nothing was written. A 503 or 429 without such a code may come
 * from a proxy that gave up on a request it had passed on, so of that nobody knows.
 */
function throttleOutcome(code: string | undefined): FailureOutcome {
  return code !== undefined && THROTTLE_CODES.has(code) ? "refused" : "unknown";
}

/** By a proxy, of a request that it may have passed on: request time-out, client closed request. */
const DOUBTFUL_4XX = new Set([408, 499]);

/**
 * A redirect or a 4xx is the answer of a server that did not do what was asked; S3's 501 too. Two statuses are not S3's,
 * and an S3 code with them makes them S3's again (its own RequestTimeout comes with 400).
 */
function provesRefusal(status: number, code: string | undefined): boolean {
  if (status === 501) return true;
  if (DOUBTFUL_4XX.has(status)) return code !== undefined;
  return status >= 300 && status < 500;
}

function advice(
  status: number,
  code: string | undefined,
  region: string | undefined,
  { location }: FailureContext,
): Pick<Told, "hint" | "needsOperator"> {
  if (status === 301 || status === 307 || code === "AuthorizationHeaderMalformed") return regionAdvice(region);
  if (code === "RequestTimeTooSkewed") {
    return { hint: "this machine's clock is wrong; the next request is signed by the store's clock, but set it right" };
  }
  const hint = HINTS.get(code ?? "")?.(location) ?? STATUS_HINTS.get(status);
  return hint === undefined ? {} : { hint, needsOperator: true };
}

function regionAdvice(region: string | undefined): Pick<Told, "hint" | "needsOperator"> {
  const hint = region ? `the bucket is in ${region}: use region=${region}` : "set region= to the bucket's own region";
  return { hint, needsOperator: true };
}

const NO_CONDITIONS =
  "this store has no conditional writes (If-Match, If-None-Match) and cannot keep a history; use another";
const KEYS =
  "the store does not take these credentials: look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile";

const HINTS: ReadonlyMap<string, (location: S3Location) => string> = new Map([
  ["NoSuchBucket", ({ bucket }: S3Location) => `make the bucket ${bucket} first: Moonport never creates one`],
  ["NotImplemented", () => NO_CONDITIONS],
  ["InvalidAccessKeyId", () => KEYS],
  ["SignatureDoesNotMatch", () => KEYS],
  ["InvalidToken", () => KEYS],
  ["ExpiredToken", () => "the credentials have expired"],
  [
    "AccessDenied",
    ({ bucket }: S3Location) =>
      `the credentials need s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket and s3:AbortMultipartUpload on ${bucket}`,
  ],
  ["MissingContentLength", () => "try checksums=when-required"],
]);

const STATUS_HINTS: ReadonlyMap<number, string> = new Map([
  [403, "the store refuses these credentials"],
  [411, "try checksums=when-required"],
  [501, NO_CONDITIONS],
]);

/** Errors of the calls that make a connection: no byte of the request has left. */
const CONNECT_CALLS = new Set(["connect", "getaddrinfo"]);
const TLS_CODE = /^(ERR_TLS_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|EPROTO)/;

function withoutAnswer(error: ThrownBySdk, context: FailureContext): S3Failure {
  const told: Told = { status: undefined, code: error.code, message: textOf(error) };
  if (isCredentialsError(error)) return { kind: "refused", ...told, hint: NO_CREDENTIALS_HINT, needsOperator: true };
  if (error.code !== undefined && TLS_CODE.test(error.code)) {
    return {
      kind: "refused",
      ...told,
      hint: "the endpoint's certificate is not trusted, or it does not speak TLS",
      needsOperator: true,
    };
  }
  if (neverConnected(error)) return { kind: "refused", ...told, hint: unreachableHint(context) };
  return { kind: context.sent ? "unknown" : "refused", ...told };
}

/** On one line: OpenSSL's errors end with a line break. An error that stands for several says nothing of its own. */
function textOf(error: ThrownBySdk): string {
  const own = error.message?.replace(/\s+/g, " ").trim();
  if (own !== undefined && own !== "") return own;
  const all = new Set(error.errors?.map(textOf));
  return all.size > 0 ? [...all].join("; ") : "no answer";
}

function unreachableHint({ location }: FailureContext): string {
  const where = location.endpoint ?? `the store of ${location.bucket}`;
  return `no connection to ${where}: is the address right, is the store running, may this machine reach it?`;
}

export const NO_CREDENTIALS_HINT =
  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role gives credentials";

function isCredentialsError({ name }: ThrownBySdk): boolean {
  return name === "CredentialsProviderError" || name === "TokenProviderError" || name === "ProviderError";
}

function neverConnected(error: ThrownBySdk): boolean {
  if (error.syscall !== undefined && CONNECT_CALLS.has(error.syscall)) return true;
  // Several addresses were tried, each in vain.
  if (error.errors !== undefined && error.errors.length > 0) return error.errors.every(neverConnected);
  return error.name === "TimeoutError" && error.message?.includes("did not establish a connection") === true;
}
