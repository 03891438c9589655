/**
 * Where an S3 bucket is and how it wants to be spoken to, from the URL that users write:
 * `s3://BUCKET/PREFIX?endpoint=…&region=…&pathStyle=…&ifMatchQuotes=…&checksums=…`.
 *
 * Every part is validated here, once. A URL stands in command lines, logs and error messages, so one that carries a secret
 * is refused, and no message repeats what might be one.
 */
import { MoonportError } from "../../errors.js";
import { nearest } from "../../nearest.js";

export interface S3Location {
  readonly bucket: string;
  /** Before every key: empty, or ends with a slash. */
  readonly prefix: string;
  /** Scheme, host and port. Absent: AWS's own, by the region. */
  readonly endpoint: string | undefined;
  /** Absent: from the environment or the profile. */
  readonly region: string | undefined;
  /** The bucket's name in the path instead of the host's name. Default: whether there is an endpoint. */
  readonly pathStyle: boolean;
  /** Whether If-Match carries the etag in quotes, as HTTP has it. Ceph's gateway up to 16 wants it bare. */
  readonly ifMatchQuotes: boolean;
  readonly checksums: "when-supported" | "when-required";
}

export const S3_FORM = "an S3 bucket is s3://BUCKET/PREFIX?endpoint=URL&region=NAME";

const OPTIONS = ["endpoint", "region", "pathStyle", "ifMatchQuotes", "checksums"] as const;
type OptionName = (typeof OPTIONS)[number];

const SECRETS_HINT =
  "credentials come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), a profile, or the machine's role";

/** Names under which people put secrets into URLs; none of our options is among them. */
const SECRET_NAME = /key|secret|token|password|credential|signature|^x-amz-|auth/i;

/** @throws MoonportError `bad_option` */
export function parseS3Url(url: string): S3Location {
  const { authority, path, query } = splitUrl(url);
  if (authority.includes("@")) throw refused("s3://…@…", "holds credentials", SECRETS_HINT);
  const shown = `s3://${authority}`;
  const bucket = checkedBucket(authority, shown);
  const options = optionsOf(query, shown);
  const endpoint = options.get("endpoint");
  return {
    bucket,
    prefix: prefixOf(path, shown),
    endpoint: endpoint === undefined ? undefined : checkedEndpoint(endpoint, shown),
    region: checkedRegion(options.get("region"), shown),
    pathStyle: flag("pathStyle", options, shown) ?? endpoint !== undefined,
    ifMatchQuotes: flag("ifMatchQuotes", options, shown) ?? true,
    checksums: checkedChecksums(options.get("checksums"), shown),
  };
}

/** For messages and as the bucket's name: what tells two buckets apart. */
export function s3Name({ bucket, prefix, endpoint }: S3Location): string {
  const path = prefix === "" ? "" : `/${prefix.slice(0, -1)}`;
  return `s3://${bucket}${path}${endpoint === undefined ? "" : `?endpoint=${endpoint}`}`;
}

/** By hand: a URL parser would lower-case the bucket's name and take a prefix's dots for folders. */
function splitUrl(url: string): { readonly authority: string; readonly path: string; readonly query: string } {
  if (!url.startsWith("s3://")) throw refused("s3:", "needs two slashes before the bucket's name", S3_FORM);
  if (url.includes("#")) throw refused("s3:", "takes nothing after a #; a # in a prefix is written %23", S3_FORM);
  const rest = url.slice("s3://".length);
  const mark = rest.indexOf("?");
  const [place, query] = mark < 0 ? [rest, ""] : [rest.slice(0, mark), rest.slice(mark + 1)];
  const slash = place.indexOf("/");
  const [authority, path] = slash < 0 ? [place, ""] : [place.slice(0, slash), place.slice(slash + 1)];
  return { authority, path, query };
}

function checkedBucket(name: string, shown: string): string {
  if (name === "") throw refused(shown, "names no bucket", S3_FORM);
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name)) {
    throw refused(shown, "a bucket's name is 3 to 63 lower-case letters, digits, dots and dashes", S3_FORM);
  }
  return name;
}

function prefixOf(path: string, shown: string): string {
  const trimmed = path.replace(/\/+$/, "");
  if (trimmed === "") return "";
  const prefix = decoded(trimmed, shown);
  const segments = prefix.split("/");
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) {
    throw refused(shown, "a prefix has no empty part and no part of dots alone", S3_FORM);
  }
  if (/\p{Cc}/u.test(prefix)) throw refused(shown, "a prefix holds no control characters", S3_FORM);
  return `${prefix}/`;
}

function decoded(text: string, shown: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refused(shown, "a % in a URL is followed by two hex digits of UTF-8", "a % itself is written %25");
  }
}

function optionsOf(query: string, shown: string): Map<OptionName, string> {
  const options = new Map<OptionName, string>();
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals), shown);
    if (!isOption(name)) throw unknownOption(name, shown);
    if (options.has(name)) throw refused(shown, `names ${name} twice`, S3_FORM);
    options.set(name, equals < 0 ? "" : decoded(pair.slice(equals + 1), shown));
  }
  return options;
}

function isOption(name: string): name is OptionName {
  return OPTIONS.some((known) => known === name);
}

function unknownOption(name: string, shown: string): MoonportError {
  if (SECRET_NAME.test(name)) return refused(shown, `holds what looks like a secret, ${name}`, SECRETS_HINT);
  const guess = nearest(name, OPTIONS);
  return refused(
    shown,
    `has no option "${name}"`,
    guess ? `did you mean ${guess}?` : `there are ${OPTIONS.join(", ")}`,
  );
}

function checkedEndpoint(text: string, shown: string): string {
  const hint = "an endpoint is like https://host or http://host:port";
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused(shown, "its endpoint is not a URL", hint);
  }
  if (url.username !== "" || url.password !== "") throw refused(shown, "its endpoint holds credentials", SECRETS_HINT);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw refused(shown, "its endpoint is not HTTP", hint);
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") {
    throw refused(shown, "its endpoint has more than a host and a port", hint);
  }
  return url.origin;
}

function checkedRegion(region: string | undefined, shown: string): string | undefined {
  if (region === undefined || /^[A-Za-z0-9-]{1,64}$/.test(region)) return region;
  throw refused(shown, "its region is not a region's name", "a region is like eu-central-1, or auto");
}

function flag(name: OptionName, options: ReadonlyMap<OptionName, string>, shown: string): boolean | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  if (text === "true" || text === "false") return text === "true";
  throw refused(shown, `${name} is true or false`, S3_FORM);
}

function checkedChecksums(text: string | undefined, shown: string): S3Location["checksums"] {
  if (text === undefined) return "when-supported";
  if (text === "when-supported" || text === "when-required") return text;
  throw refused(shown, "checksums is when-supported or when-required", S3_FORM);
}

function refused(shown: string, reason: string, hint: string): MoonportError {
  return MoonportError.of("bad_option", `bucket "${shown}": ${reason}`, { hint });
}
