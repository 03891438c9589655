/**
 * Who may reach a node that has no auth: this machine alone.
 *
 * Binding the loopback address keeps other machines out, but not the browser on this one: any page may send a form to
 * 127.0.0.1, or give its own name that address (DNS rebinding). So a request must name the node by a loopback name, and one
 * that a page sends must come from a page of this machine.
 */
import { isIPv4 } from "node:net";
import { MoonportError } from "../errors.js";

/** `localhost`, names under it, 127.0.0.0/8 and ::1; brackets around an IPv6 address are ignored. */
function isLoopback(host: string): boolean {
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

/** @throws MoonportError `origin_refused` */
export function checkLocalRequest(hostHeader: string | undefined, originHeader: string | undefined): void {
  // No browser leaves Host out; HTTP/1.0 tools do.
  if (hostHeader !== undefined && !isLoopback(hostName(`http://${hostHeader}`))) {
    throw MoonportError.of("origin_refused", "the Host header does not name a loopback address", {
      hint: "a proxy in front of the node has to send Host: 127.0.0.1",
    });
  }
  if (originHeader !== undefined && !isLoopback(hostName(originHeader))) {
    throw MoonportError.of("origin_refused", "pages of other origins may not call this node");
  }
}

function hostName(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : "";
}
