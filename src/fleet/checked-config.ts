/**
 * How a process says which fleet it belongs to, and under what name: checked, and made into what {@link FleetNode} joins with.
 *
 * It refuses what would fail later and elsewhere: a bucket that the others cannot reach, an address that nobody can dial, a
 * port that is open to a network without a secret.
 */
import os from "node:os";
import { sqliteLocation, sqliteUrl } from "../bucket/sqlite-location.js";
import { MoonportError } from "../errors.js";
import { checkTls } from "../links/link-tls.js";
import { WsNetwork } from "../links/ws-network.js";
import { checkNodeName } from "../membership/node-record.js";
import { isLoopback, plainAddress } from "../server/loopback.js";
import type { Settings } from "../settings/settings.js";
import type { FleetConfig } from "./fleet-config.js";
import type { FleetOptions } from "./fleet-member.js";

const SECRET_CHARACTERS_MIN = 16;
const WEIGHT_MAX = 1_000;

/** Of nodes that have none: whoever reaches their links is on this machine, as whoever reaches doors without auth. */
const LOOPBACK_SECRET = "loopback";
const NAME_CHARACTERS_MAX = 63;
const ADDRESS = /^(?<host>\[[^\]]+\]|[^:]+):(?<port>[0-9]{1,5})$/;
const ZONE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const EVERY_ADDRESS = ["0.0.0.0", "::"];

type LinkProtocol = "ws:" | "wss:";

interface Listen {
  readonly host: string;
  readonly port: number;
}

/**
 * @param bucketUrl which all nodes must share
 * @throws MoonportError `bad_option`, `bad_name`, `insecure_bind`, `bad_setting`
 */
export function fleetOptionsOf(config: FleetConfig, bucketUrl: string, settings: Settings): FleetOptions {
  const { node = ownNodeName(), zone = "default", weight = 1 } = config;
  checkNodeName(node);
  if (!ZONE.test(zone)) throw MoonportError.of("bad_option", `"${zone}" is no name of a zone`);
  if (!(weight >= 0 && weight <= WEIGHT_MAX)) {
    throw MoonportError.of("bad_option", `a node's weight is a number from 0 to ${WEIGHT_MAX}`);
  }
  checkBucket(bucketUrl);
  checkFlights(settings);
  const { host, port } = listenOf(config.listen);
  const secret = checkedSecret(config.secret, host);
  const { tls } = config;
  if (tls !== undefined) checkTls(tls);
  const advertised = advertisedOf(config.advertise, host, tls === undefined ? "ws:" : "wss:");
  const network = new WsNetwork({ host, port, settings, ...advertised, ...(tls && { tls }) });
  return { node, zone, weight, network, secret };
}

/** The machine's name with what no node's name may hold replaced. */
export function ownNodeName(hostname = os.hostname()): string {
  const name = hostname
    .replace(/[^A-Za-z0-9._-]/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, NAME_CHARACTERS_MAX);
  return name === "" ? "node" : name;
}

function checkBucket(url: string): void {
  if (url.startsWith("memory:")) {
    throw MoonportError.of(
      "bad_option",
      "the nodes of a fleet share one bucket, and nobody else reaches this node's memory",
    );
  }
  const location = sqliteLocation(url);
  if (location === undefined || location.isShared) return;
  throw MoonportError.of(
    "bad_option",
    "the nodes of a fleet share one bucket, and this one's is not said to be shared",
    {
      hint: `--bucket s3://… for several machines, --bucket "${sqliteUrl({ ...location, isShared: true })}" for one`,
    },
  );
}

function checkFlights({ OBJECT_FLIGHT_BYTES_MAX, LINK_MESSAGE_BYTES_MAX }: Settings): void {
  if (OBJECT_FLIGHT_BYTES_MAX <= LINK_MESSAGE_BYTES_MAX) return;
  throw MoonportError.of(
    "bad_setting",
    "in a fleet OBJECT_FLIGHT_BYTES_MAX may not be more than LINK_MESSAGE_BYTES_MAX, or no journal gets the flights between",
    {
      hint: "flights with more than a message holds go into the bucket as snapshots: lower the one, or raise the other",
    },
  );
}

function listenOf(listen: string): Listen {
  const { host, port } = ADDRESS.exec(listen)?.groups ?? {};
  if (host === undefined || Number(port) > 65_535) {
    throw MoonportError.of("bad_option", `"${listen}" is no address to listen on`, {
      hint: "an address looks like 10.0.0.7:7071, or 127.0.0.1:0 for any free port",
    });
  }
  if (Number(port) === 0 && !isLoopback(host)) {
    throw MoonportError.of("bad_option", `port 0 is for loopback addresses: others are to find ${host} again`);
  }
  return { host: plainAddress(host), port: Number(port) };
}

function checkedSecret(secret: string | undefined, host: string): string {
  // It is not shown, nor how long it is.
  if (secret !== undefined && secret.length < SECRET_CHARACTERS_MIN) {
    throw MoonportError.of("bad_option", `a fleet's secret has at least ${SECRET_CHARACTERS_MIN} characters`, {
      hint: "openssl rand -base64 32 makes one",
    });
  }
  if (secret === undefined && !isLoopback(host)) {
    throw MoonportError.of("insecure_bind", `${host} is not a loopback address, and the fleet has no secret`, {
      hint: "give all its nodes one: MOONPORT_FLEET_SECRET in the environment, or --fleet-secret-file FILE",
    });
  }
  return secret ?? LOOPBACK_SECRET;
}

function advertisedOf(
  advertise: string | undefined,
  host: string,
  protocol: LinkProtocol,
): { advertisedAddress?: string; advertisedHost?: string } {
  if (advertise !== undefined) return { advertisedAddress: checkedAddress(advertise, protocol) };
  if (!EVERY_ADDRESS.includes(host)) return {};
  const own = ownAddress();
  if (own !== undefined) return { advertisedHost: own };
  throw MoonportError.of("bad_option", `no address of this machine is known that other nodes could dial`, {
    hint: `--fleet-advertise ${protocol}//HOST:PORT names it`,
  });
}

/** `ws://host:port`, without a slash behind it. */
function checkedAddress(address: string, protocol: LinkProtocol): string {
  const parsed = URL.canParse(address) ? new URL(address) : undefined;
  const isWhole = parsed?.protocol === protocol && parsed.port !== "" && parsed.href === `${protocol}//${parsed.host}/`;
  if (isWhole && parsed.port !== "0") return `${protocol}//${parsed.host}`;
  throw MoonportError.of("bad_option", `"${address}" is no address that other nodes could dial`, {
    hint: `an address looks like ${protocol}//10.0.0.7:7071${protocol === "wss:" ? ": the fleet has certificates" : ""}`,
  });
}

/** The first address of this machine on a network. */
function ownAddress(): string | undefined {
  const all = Object.values(os.networkInterfaces()).flatMap((addresses = []) => addresses);
  const outward = all.filter(({ internal, scopeid = 0 }) => !internal && scopeid === 0);
  return (outward.find(({ family }) => family === "IPv4") ?? outward[0])?.address;
}
