/** Node processes on S3, as an operator meets them: what they say when they cannot start, and when they end; and commands beside them. */
import { describe, expect, it, onTestFinished } from "vitest";
import { type CliRun, cli, cliJson, RunningCli } from "../cli/cli.js";
import { ledgerApp } from "../drill/ledger-app.js";
import { startFaultProxy } from "../support/fault-proxy.js";
import { describeOnRealS3, type RealS3 } from "../support/real-s3.js";
import { temporaryFolder } from "../support/temporary-folder.js";

type Environment = Readonly<Record<string, string>>;

interface Refusal {
  readonly what: string;
  readonly url: (s3: RealS3) => string;
  readonly env?: (s3: RealS3) => Environment;
  readonly code: string;
  readonly exit: number;
  readonly says: RegExp;
  readonly hint: RegExp;
}

const SECRET = "AQuiteSecretSecret";
const good = (s3: RealS3): string => s3.bucketUrl("startup");

const REFUSALS: readonly Refusal[] = [
  {
    what: "a secret key that is not the key's",
    url: good,
    env: ({ env }) => ({ ...env, AWS_SECRET_ACCESS_KEY: SECRET }),
    code: "bucket_unusable",
    exit: 7,
    says: /^error: s3:\/\/\S+ refused the probe at create: 403 SignatureDoesNotMatch \(/,
    hint: /AWS_SECRET_ACCESS_KEY/,
  },
  {
    what: "no credentials at all",
    url: good,
    env: () => ({
      AWS_ACCESS_KEY_ID: "",
      AWS_SECRET_ACCESS_KEY: "",
      HOME: "/nonexistent",
      AWS_EC2_METADATA_DISABLED: "true",
    }),
    code: "bucket_unusable",
    exit: 7,
    says: /credentials/,
    hint: /AWS_PROFILE/,
  },
  {
    what: "a bucket that is not there",
    url: (s3) => good(s3).replace(s3.bucket, "never-made"),
    code: "bucket_unusable",
    exit: 7,
    says: /^error: s3:\/\/never-made\S+ refused the probe at create: 404 NoSuchBucket \(/,
    hint: /make the bucket never-made first/,
  },
  {
    what: "an endpoint where nothing answers",
    url: (s3) => s3.bucketUrl("startup", { endpoint: "http://127.0.0.1:1" }),
    code: "bucket_failed",
    exit: 5,
    says: /ECONNREFUSED 127\.0\.0\.1:1/,
    hint: /http:\/\/127\.0\.0\.1:1/,
  },
  {
    what: "an endpoint that does not speak TLS",
    url: (s3) => s3.bucketUrl("startup", { endpoint: `https://${s3.host}:${s3.port}` }),
    code: "bucket_unusable",
    exit: 7,
    says: /EPROTO/,
    hint: /does not speak TLS/,
  },
  {
    what: "the wrong quotes",
    url: (s3) => good(s3).replace("ifMatchQuotes=false", "ifMatchQuotes=true"),
    code: "bucket_unusable",
    exit: 7,
    says: /failed the probe at update/,
    hint: /ifMatchQuotes=false/,
  },
  {
    what: "an option that there is not",
    url: (s3) => good(s3).replace("pathStyle", "pathStile"),
    code: "bad_option",
    exit: 2,
    says: /pathStile/,
    hint: /pathStyle/,
  },
  {
    what: "credentials in the URL",
    url: (s3) => good(s3).replace("s3://", `s3://KEY:${SECRET}@`),
    code: "bad_option",
    exit: 2,
    says: /holds credentials/,
    hint: /environment/,
  },
];

describeOnRealS3("a node process on S3", (s3) => {
  describe("that cannot have its bucket says why in one error, and ends", () => {
    it.each(REFUSALS)("given $what", async ({ url, env, code, exit, says, hint }) => {
      const options = { cwd: ledgerApp(), env: env?.(s3()) ?? s3().env };
      const start = await cli(options, "start", "--port", "0", "--bucket", url(s3()));
      const [error = "", ...rest] = start.stderr.trimEnd().split("\n");
      expect([start.code, start.stdout, rest.length]).toEqual([exit, "", 1]);
      expect(error).toMatch(new RegExp(`^error: .*\\(${code}\\)$`));
      expect(error).toMatch(says);
      expect(rest[0]).toMatch(hint);
      expectNoSecret(start.stderr);
    });

    it("in the same way from dev, and as JSON", async () => {
      const options = { cwd: ledgerApp(), env: { ...s3().env, AWS_SECRET_ACCESS_KEY: SECRET } };
      const dev = await cliJson(options, "dev", "--port", "0", "--bucket", good(s3()));
      const error = {
        code: "bucket_unusable",
        exit: 7,
        retryable: false,
        hint: expect.stringContaining("credentials"),
      };
      expect([dev.code, dev.document, dev.stderr]).toMatchObject([7, { error }, ""]);
      expectNoSecret(JSON.stringify(dev.document));
    });

    function expectNoSecret(text: string): void {
      for (const secret of [SECRET, s3().keys.secretAccessKey]) expect(text).not.toContain(secret);
    }
  });

  it("is found by commands on its folder, and its bucket by commands after it", async () => {
    const options = { cwd: ledgerApp(), env: s3().env };
    const node = new RunningCli(options, "start", "--port", "0", "--json", "--bucket", s3().bucketUrl("commands"));
    await node.document("url");
    const call = (tag: number): ReturnType<typeof cliJson> =>
      cliJson(options, "call", "Ledger/a", "add", `${tag}`, "1", "1");
    expect((await call(1)).document).toMatchObject({ value: { n: 1 }, seq: 1 });
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
    expect((await call(2)).document).toMatchObject({ value: { n: 2 }, seq: 2 });
    const elsewhere = { cwd: temporaryFolder(), env: s3().env };
    const words = ["call", "Ledger/a", "everything", "--dir", options.cwd, "--data", "fresh"];
    const { document } = await cliJson(elsewhere, ...words, "--bucket", s3().bucketUrl("commands"));
    expect(document).toMatchObject({ value: { log: [{ tag: 1 }, { tag: 2 }] } });
  });

  it("whose bucket is away is found all the same; told to stop, it says that not everything has landed", async () => {
    const proxy = await startFaultProxy({ target: s3() });
    onTestFinished(() => proxy.stop());
    const bucket = ["--bucket", s3().bucketUrl("away", { endpoint: proxy.endpoint })];
    const options = { cwd: ledgerApp(), env: s3().env };
    const settings = ["HEALTH_LANDED_MS=500", "HEALTH_INTERVAL_MS=50", "OBJECT_ACK_GATE_MS=500", "DRAIN_MS=500"];
    const sets = [...settings, "BUCKET_TIMEOUT_MS=2000"].flatMap((set) => ["--set", set]);
    const node = new RunningCli(options, "start", "--port", "0", "--json", ...bucket, ...sets);
    const { url } = (await node.document("url")) as { url: string };
    const call = (tag: string): Promise<CliRun> => cli(options, "call", "Ledger/a", "add", tag, "1", "1", "--id", tag);
    expect((await call("1")).code).toBe(0);

    proxy.always("any", { kind: "black_hole" });
    await expect.poll(async () => (await fetch(`${url}/readyz`)).status, { timeout: 30_000 }).toBe(503);
    const unknown = await call("2");
    expect([unknown.code, unknown.stderr]).toEqual([6, expect.stringContaining("to ask again: --id 2")]);
    node.signal("SIGTERM");
    expect(await node.exit).toBe(6);
    const last = JSON.parse(node.lines.at(-1) ?? "") as object;
    expect(last).toMatchObject({ error: { code: "outcome_unknown", message: expect.stringContaining("not landed") } });
  });
});
