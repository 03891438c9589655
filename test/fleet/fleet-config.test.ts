import { describe, expect, it } from "vitest";
import { fleetOptionsOf, ownNodeName } from "../../src/fleet/checked-config.js";
import type { FleetConfig } from "../../src/fleet/fleet-config.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { certificates } from "../support/certificates.js";

const SHARED = "sqlite:/somewhere/bucket.db?shared=1";
const SECRET = "a secret of 20 chars";
const HERE: FleetConfig = { node: "n1", listen: "127.0.0.1:0" };

const options = (config: Partial<FleetConfig>, bucket = SHARED) =>
  fleetOptionsOf({ ...HERE, ...config }, bucket, resolveSettings());

/** Where others are told to dial. */
async function advertised(config: Partial<FleetConfig>): Promise<string> {
  const listening = await options(config).network.listen(() => ({ message: () => {}, closed: () => {} }));
  await listening.close();
  return listening.address;
}

describe("a process joins a fleet", () => {
  it.each<[string, Partial<FleetConfig>, string, RegExp]>([
    ["a name that is none", { node: "a/b" }, "bad_name", /no name of a node/],
    ["a zone that is none", { zone: "" }, "bad_option", /no name of a zone/],
    ["a negative weight", { weight: -1 }, "bad_option", /from 0 to 1000/],
    ["a weight that is no number", { weight: Number.NaN }, "bad_option", /from 0 to 1000/],
    ["a port without a host", { listen: "7071" }, "bad_option", /no address to listen on/],
    ["a host without a port", { listen: "10.0.0.7" }, "bad_option", /no address to listen on/],
    ["a port that is none", { listen: "127.0.0.1:65536" }, "bad_option", /no address to listen on/],
    ["any port on a network", { listen: "10.0.0.7:0", secret: SECRET }, "bad_option", /port 0 is for loopback/],
    ["a network without a secret", { listen: "10.0.0.7:7071" }, "insecure_bind", /10\.0\.0\.7 is not a loopback/],
    ["every address without a secret", { listen: "[::]:7071" }, "insecure_bind", /:: is not a loopback/],
    ["a short secret", { listen: "10.0.0.7:7071", secret: SECRET.slice(0, 15) }, "bad_option", /16 characters/],
    ["a short secret on this machine", { secret: "short" }, "bad_option", /16 characters/],
    ["an address of HTTP", { advertise: "http://10.0.0.7:7071" }, "bad_option", /could dial/],
    ["an address without a port", { advertise: "ws://10.0.0.7" }, "bad_option", /could dial/],
    ["a certificate without a key", { tls: { ...certificates.node, key: "" } }, "bad_option", /lack their key/],
    ["another's key", { tls: { ...certificates.node, key: certificates.elsewhere.key } }, "bad_option", /do not fit/],
    ["a certificate that is none", { tls: { ...certificates.node, cert: "x" } }, "bad_option", /do not fit/],
    ["an authority that is none", { tls: { ...certificates.node, ca: "x" } }, "bad_option", /no PEM certificate/],
    [
      "an open address, and certificates",
      { tls: certificates.node, advertise: "ws://a:1" },
      "bad_option",
      /could dial/,
    ],
    ["an address with a path", { advertise: "ws://10.0.0.7:7071/x" }, "bad_option", /could dial/],
  ])("but not with %s", (_, config, code, message) => {
    expect(() => options(config)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));
  });

  it("and an error about its secret does not show it", () => {
    const shown = (action: () => unknown): string => {
      try {
        action();
      } catch (error) {
        return JSON.stringify(error, Object.getOwnPropertyNames(error));
      }
      return "";
    };
    expect(shown(() => options({ secret: "hunter2" }))).toContain("16 characters");
    expect(shown(() => options({ secret: "hunter2" }))).not.toContain("hunter2");
  });

  it.each([
    ["memory:", undefined],
    ["sqlite:/somewhere/bucket.db", /sqlite:\/somewhere\/bucket\.db\?shared=1/],
    ["sqlite:/somewhere/bucket.db?shared=0", /sqlite:\/somewhere\/bucket\.db\?shared=1/],
  ])("only on a bucket that the others reach, which %s is not", (bucket, hint) => {
    expect(() => options({}, bucket)).toThrow(
      expect.objectContaining({ code: "bad_option", ...(hint && { hint: expect.stringMatching(hint) }) }),
    );
    expect(() => options({}, "s3://bucket/prefix")).not.toThrow();
  });

  it("not with flights that no message between nodes holds", () => {
    const join = (flightBytes: number) => () =>
      fleetOptionsOf(HERE, SHARED, resolveSettings({ OBJECT_FLIGHT_BYTES_MAX: flightBytes }));
    const { LINK_MESSAGE_BYTES_MAX } = resolveSettings();
    expect(join(LINK_MESSAGE_BYTES_MAX)).not.toThrow();
    expect(join(LINK_MESSAGE_BYTES_MAX + 1)).toThrow(
      expect.objectContaining({ code: "bad_setting", message: expect.stringMatching(/LINK_MESSAGE_BYTES_MAX/) }),
    );
  });

  it("and others dial where it listens, unless it says otherwise", async () => {
    expect(await advertised({})).toMatch(/^ws:\/\/127\.0\.0\.1:[1-9][0-9]+$/);
    expect(await advertised({ listen: "[::1]:0" })).toMatch(/^ws:\/\/\[::1\]:[1-9][0-9]+$/);
    expect(await advertised({ advertise: "ws://node.example:7071" })).toBe("ws://node.example:7071");
    expect(await advertised({ advertise: "ws://[fd00::7]:7071/" })).toBe("ws://[fd00::7]:7071");
    expect(await advertised({ tls: certificates.node })).toMatch(/^wss:\/\/127\.0\.0\.1:[1-9][0-9]+$/);
    expect(await advertised({ tls: certificates.node, advertise: "wss://node.example:7071" })).toBe(
      "wss://node.example:7071",
    );
  });

  it("under the machine's name, made valid, where it has none of its own", () => {
    expect(options({}).node).toBe("n1");
    expect(ownNodeName("web-1.example.com")).toBe("web-1.example.com");
    expect(ownNodeName("Ada's laptop")).toBe("Ada-s-laptop");
    expect(ownNodeName("--x")).toBe("x");
    expect(ownNodeName("ä")).toBe("node");
    expect(ownNodeName("a".repeat(80))).toHaveLength(63);
  });
});
