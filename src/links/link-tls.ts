/** Certificates for links: each side shows one, and takes only those that the fleet's authority has signed. */
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { MoonportError } from "../errors.js";

/** PEM texts. */
export interface LinkTls {
  /** Of this node, followed by those between it and the authority's; for the host by which others reach it. */
  readonly cert: string;
  readonly key: string;
  /** Of the authority; another's certificates are refused, also those that the system trusts. */
  readonly ca: string;
}

/** For both sides of a link. */
export function tlsOptions({ cert, key, ca }: LinkTls): SecureContextOptions {
  return { cert, key, ca, minVersion: "TLSv1.3" };
}

/** @throws MoonportError `bad_option` when no certificate, no key or no authority can be read, or the key is another's */
export function checkTls(tls: LinkTls): void {
  const missing = (["cert", "key", "ca"] as const).find((part) => !tls[part]);
  if (missing !== undefined) throw MoonportError.of("bad_option", `the fleet's certificates lack their ${missing}`);
  try {
    createSecureContext(tlsOptions(tls));
  } catch (cause) {
    // What it says names no part of the key.
    throw MoonportError.of("bad_option", `the fleet's certificate, key and authority do not fit: ${reasonOf(cause)}`, {
      hint: "three PEM files: this node's certificate, its key without a password, and the authority's certificate",
      cause,
    });
  }
  if (!tls.ca.includes("-----BEGIN CERTIFICATE-----")) {
    throw MoonportError.of("bad_option", "the fleet's authority is no PEM certificate");
  }
}

function reasonOf(cause: unknown): string {
  const { reason, message } = cause as { reason?: string; message: string };
  return reason ?? message;
}
