/** The token of an Authorization header (RFC 6750). */
import { MoonportError } from "../errors.js";

const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** `undefined` without the header. @throws MoonportError `unauthenticated` for any other scheme */
export function bearerToken(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const token = BEARER.exec(header)?.[1];
  if (token !== undefined) return token;
  throw MoonportError.of("unauthenticated", "the Authorization header holds no bearer token", {
    hint: "send Authorization: Bearer TOKEN",
  });
}
