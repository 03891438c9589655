/** Certificates of the tests (test/fixtures/tls/make.sh): of a node, of one with another name, and of another authority's. */
import fs from "node:fs";
import path from "node:path";
import { packageRoot } from "../../cli/package-root.js";
import type { LinkTls } from "../../src/links/link-tls.js";

const FOLDER = path.join(packageRoot, "test", "fixtures", "tls");

/** The files of `--fleet-cert`, `--fleet-key` and `--fleet-ca`. */
export function certificateFiles(name: string, authority = "fleet"): readonly [string, string, string] {
  const file = (base: string): string => path.join(FOLDER, `${base}.pem`);
  return [file(name), file(`${name}-key`), file(authority)];
}

function certificate(name: string, authority?: string): LinkTls {
  const [cert, key, ca] = certificateFiles(name, authority).map((file) => fs.readFileSync(file, "utf8"));
  return { cert: cert as string, key: key as string, ca: ca as string };
}

export const certificates = {
  node: certificate("node"),
  elsewhere: certificate("elsewhere"),
  foreign: certificate("foreign", "stranger"),
};
