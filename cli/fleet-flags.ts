/** The flags that make a node one of a fleet: `start` and `dev` take them. */
import fs from "node:fs";
import { type Command, InvalidArgumentError } from "commander";
import { MoonportError } from "../src/errors.js";
import type { FleetConfig } from "../src/fleet/fleet-config.js";
import type { LinkTls } from "../src/links/link-tls.js";
import type { Context } from "./context.js";
import type { Output } from "./output.js";

export interface FleetFlags {
  readonly fleetListen?: string;
  readonly fleetAdvertise?: string;
  readonly zone?: string;
  readonly weight?: number;
  readonly fleetSecretFile?: string;
  readonly fleetCert?: string;
  readonly fleetKey?: string;
  readonly fleetCa?: string;
}

/** Others of this machine may read it, or write it. */
const FOR_OTHERS = 0o077;

export function addFleetFlags(command: Command): Command {
  const option = (flags: string, env: string, description: string) => command.createOption(flags, description).env(env);
  return command
    .addOption(
      option(
        "--fleet-listen <host:port>",
        "MOONPORT_FLEET_LISTEN",
        "join the fleet of the bucket, and listen there for its other nodes; --node then names this one",
      ),
    )
    .addOption(
      option(
        "--fleet-advertise <url>",
        "MOONPORT_FLEET_ADVERTISE",
        "what the other nodes dial, ws://HOST:PORT or wss://HOST:PORT (default: the address listened on)",
      ),
    )
    .addOption(option("--zone <name>", "MOONPORT_ZONE", "copies go to different zones first (default: default)"))
    .addOption(
      option(
        "--weight <number>",
        "MOONPORT_WEIGHT",
        "share of the objects beside the other nodes' (default: 1)",
      ).argParser(numberOf),
    )
    .addOption(
      option(
        "--fleet-secret-file <file>",
        "MOONPORT_FLEET_SECRET_FILE",
        "holds what all nodes of the fleet know; or the environment's MOONPORT_FLEET_SECRET does",
      ),
    )
    .addOption(option("--fleet-cert <file>", "MOONPORT_FLEET_CERT", "this node's certificate: links are encrypted"))
    .addOption(option("--fleet-key <file>", "MOONPORT_FLEET_KEY", "the certificate's key"))
    .addOption(option("--fleet-ca <file>", "MOONPORT_FLEET_CA", "who has signed the certificates of all nodes"));
}

/**
 * Undefined for a node that is alone.
 * @throws MoonportError `bad_option`, also for a flag of a fleet without a fleet: a node that is alone by mistake would be no
 * node of it
 */
export function fleetConfigOf(context: Context, flags: FleetFlags): FleetConfig | undefined {
  const { fleetListen: listen, fleetAdvertise: advertise, zone, weight, fleetSecretFile } = flags;
  const node = context.nodeUrl ?? (process.env.MOONPORT_NODE || undefined);
  const secret = secretOf(fleetSecretFile, context);
  const tls = tlsOf(flags, context);
  const given = { node, advertise, zone, weight, secret, tls };
  // An empty variable is none.
  const present = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== ""));
  if (listen) return { listen, ...present };
  const [lonely] = Object.keys(present);
  if (lonely === undefined) return undefined;
  throw MoonportError.of("bad_option", `a fleet's ${lonely} is given, and no fleet`, {
    hint: "--fleet-listen HOST:PORT makes this node one of a fleet",
  });
}

function secretOf(file: string | undefined, { output }: Context): string | undefined {
  const { MOONPORT_FLEET_SECRET: given } = process.env;
  if (file === undefined) return given || undefined;
  if (given)
    throw MoonportError.of("bad_option", "the fleet's secret is given twice: in the environment and in a file");
  return privateTextOf("--fleet-secret-file", file, output).trim();
}

function privateTextOf(flag: string, file: string, output: Output): string {
  const text = textOf(flag, file);
  if ((fs.statSync(file).mode & FOR_OTHERS) !== 0) {
    output.talk(`${file} can be read by others of this machine: chmod 600 it`);
  }
  return text;
}

function textOf(flag: string, file: string): string {
  try {
    return fs.readFileSync(file, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw MoonportError.of("bad_option", `${flag} ${file} cannot be read (${code})`, { cause });
  }
}

/** All three or none: a link that was meant to be encrypted is not one without. */
function tlsOf({ fleetCert, fleetKey, fleetCa }: FleetFlags, { output }: Context): LinkTls | undefined {
  const files = { cert: fleetCert, key: fleetKey, ca: fleetCa };
  const missing = Object.keys(files).filter((name) => !files[name as keyof typeof files]);
  if (missing.length === 3) return undefined;
  if (missing.length > 0) {
    throw MoonportError.of("bad_option", `--fleet-${missing[0]} is missing: certificates take three files`, {
      hint: "--fleet-cert FILE --fleet-key FILE --fleet-ca FILE",
    });
  }
  const [cert, key, ca] = [fleetCert, fleetKey, fleetCa] as [string, string, string];
  return {
    cert: textOf("--fleet-cert", cert),
    key: privateTextOf("--fleet-key", key, output),
    ca: textOf("--fleet-ca", ca),
  };
}

function numberOf(text: string): number {
  if (/^[0-9]+(?:\.[0-9]+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It is a number.");
}
