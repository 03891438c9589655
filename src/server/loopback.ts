/** Addresses that only this machine reaches: the only ones that a node without auth listens on. */
import { isIPv4 } from "node:net";
import { MoonportError } from "../errors.js";

/** `localhost`, names under it, 127.0.0.0/8 and ::1; brackets around an IPv6 address are ignored. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  if (name === "localhost" || name.endsWith(".localhost") || name === "::1") return true;
  return isIPv4(name) && name.startsWith("127.");
}

/** The address to listen on. @throws MoonportError `insecure_bind` for any but a loopback address */
export function loopbackAddress(host: string): string {
  if (!isLoopback(host)) {
    throw MoonportError.of("insecure_bind", `${host} is not a loopback address, and this node has no auth`, {
      hint: "give it tokens with --auth FILE, or listen on 127.0.0.1",
    });
  }
  // A name is whatever the resolver says; the address is not.
  return host.toLowerCase().endsWith("localhost") ? "127.0.0.1" : plainAddress(host);
}

/** An IPv6 address without brackets. */
export function plainAddress(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}
