/**
 * How two nodes prove to each other that they know the fleet's secret, and agree on a protocol, without saying it: three
 * messages, the mutual authentication with nonces of ISO/IEC 9798-4.
 *
 *     dialler   → hello      names, protocols, a fresh nonce
 *     acceptor  → challenge  its names, the protocol, a fresh nonce; HMAC over hello and challenge
 *     dialler   → proof      HMAC over the same, under another label
 *
 * Both HMACs cover both messages byte for byte, so nothing in them can be altered on the way (no older protocol, no other
 * name), each covers a nonce that its reader drew just now, so none can be used twice, and labels keep one side's proof from
 * standing for the other's. The acceptor proves first; requests may follow the dialler's proof at once.
 *
 * A hello, a refusal and the fields read here stay as they are in all releases: it is how releases find out what they share.
 * Nothing here does I/O. What strangers send is read by src/wire/msgpack-reader.ts.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { Packr } from "msgpackr";
import { MoonportError } from "../errors.js";
import type { PlainObject, PlainValue } from "../values.js";
import { readMsgpack } from "../wire/msgpack-reader.js";
import type { PeerAddress, PeerName } from "./contract.js";

/** Protocols that a release speaks, both included. */
export interface ProtocolRange {
  readonly min: number;
  readonly max: number;
}

/**
 * What this release speaks. The next one that changes frames raises max, and min only one release later. A frame of a protocol
 * is sent only on links that agreed on that one or a later one.
 */
export const PROTOCOLS: ProtocolRange = { min: 1, max: 2 };
/** From which on a request may be cancelled. */
export const CANCEL_PROTOCOL = 2;

/** One side, as it enters a handshake. */
export interface Party {
  readonly self: PeerName;
  readonly fleet: string;
  readonly secret: string;
  /** Of the package, for those who read logs. */
  readonly version: string;
  readonly protocols: ProtocolRange;
  /** Larger messages are not taken. */
  readonly messageBytesMax: number;
  /** Fresh, of {@link NONCE_BYTES}. */
  readonly nonce: Uint8Array;
}

/** Who the other side has proved to be, and what was agreed. */
export interface Agreed {
  readonly peer: PeerName;
  readonly version: string;
  readonly protocol: number;
  /** That was dialled: a later link by the same node to the same address stands in place of an earlier one. */
  readonly address: string;
  /** The other side takes no larger messages. */
  readonly messageBytesMax: number;
}

export const NONCE_BYTES = 32;
/** No message of a handshake is larger. */
export const HANDSHAKE_BYTES_MAX = 4_096;

const MAGIC = "moonport-link";
const ACCEPTOR_LABEL = "moonport link: acceptor\0";
const DIALLER_LABEL = "moonport link: dialler\0";
const NAME_CHARACTERS_MAX = 256;

const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: "number" });

export class DiallerHandshake {
  readonly #party: Party;
  readonly #to: PeerAddress;
  readonly hello: Uint8Array;

  /** @param to who is meant: an address may be another node's by now */
  constructor(party: Party, to: PeerAddress) {
    this.#party = party;
    this.#to = to;
    this.hello = packr.pack({ ...introduction(party), ...party.protocols, to: to.node, address: to.address });
  }

  /**
   * @param answer the first message of the other side
   * @returns the last message of the handshake
   * @throws MoonportError `link_refused`, `node_unreachable` when another node answers
   */
  answer(answer: Uint8Array): { readonly proof: Uint8Array; readonly agreed: Agreed } {
    const { secret, protocols } = this.#party;
    const { node, address } = this.#to;
    const fields = readFields(answer);
    if (fields.refused !== undefined) throw this.#refusal(fields);
    const body = bytesOf(fields, "body");
    const transcript = [this.hello, body] as const;
    if (!isSame(bytesOf(fields, "proof"), proofOf(secret, ACCEPTOR_LABEL, transcript))) {
      throw refused(`${node} has another secret than this node`);
    }
    const challenge = readFields(body);
    const agreed: Agreed = { ...readIntroduction(challenge), address, protocol: countOf(challenge, "protocol") };
    if (agreed.peer.node !== node) throw this.#otherNode(agreed.peer.node);
    if (agreed.protocol < protocols.min || agreed.protocol > protocols.max) {
      throw refused(`${node} chose a protocol that this node does not speak`);
    }
    return { proof: proofOf(secret, DIALLER_LABEL, transcript), agreed };
  }

  #refusal(fields: PlainObject): MoonportError {
    const { fleet, protocols, version } = this.#party;
    const to = this.#to.node;
    if (fields.refused === "node") return this.#otherNode(textOf(fields, "node"));
    if (fields.refused === "fleet") {
      return refused(`${to} belongs to the fleet "${textOf(fields, "fleet")}", this node to "${fleet}"`);
    }
    const theirs = rangeText(rangeOf(fields), textOf(fields, "version"));
    return refused(
      `${to} speaks ${theirs}, this node ${rangeText(protocols, version)}`,
      "only neighbouring releases run side by side: upgrade one release at a time",
    );
  }

  #otherNode(node: string): MoonportError {
    const { node: expected, address } = this.#to;
    return MoonportError.of("node_unreachable", `${node} answers at ${address}, where ${expected} was expected`);
  }
}

export type Greeting =
  | { readonly kind: "challenge"; readonly message: Uint8Array; proven(proof: Uint8Array): Agreed }
  /** Told to the other side, which is then left. */
  | { readonly kind: "refusal"; readonly message: Uint8Array; readonly why: string };

/**
 * What the acceptor answers to a hello.
 * @throws MoonportError `link_refused` when it is none
 */
export function greet(party: Party, hello: Uint8Array): Greeting {
  const { self, fleet, secret, version, protocols } = party;
  const fields = readFields(hello);
  if (fields.magic !== MAGIC) throw refused("this is no hello");
  const theirs = { ...readIntroduction(fields), address: textOf(fields, "address"), range: rangeOf(fields) };
  const refuse = (why: string, message: PlainObject): Greeting => ({
    kind: "refusal",
    why: `${theirs.peer.node} ${why}`,
    message: packr.pack(message),
  });
  if (textOf(fields, "fleet") !== fleet) return refuse("is of another fleet", { refused: "fleet", fleet });
  if (textOf(fields, "to") !== self.node) return refuse("means another node", { refused: "node", node: self.node });
  const protocol = Math.min(theirs.range.max, protocols.max);
  if (protocol < Math.max(theirs.range.min, protocols.min)) {
    return refuse(`speaks ${rangeText(theirs.range, theirs.version)}`, { refused: "version", version, ...protocols });
  }
  const body = packr.pack({ ...introduction(party), protocol });
  const transcript = [hello, body] as const;
  return {
    kind: "challenge",
    message: packr.pack({ body, proof: proofOf(secret, ACCEPTOR_LABEL, transcript) }),
    proven(proof) {
      const { peer, address, messageBytesMax } = theirs;
      if (isSame(proof, proofOf(secret, DIALLER_LABEL, transcript))) {
        return { peer, version: theirs.version, address, messageBytesMax, protocol };
      }
      throw refused(`${peer.node} has not proved that it knows the fleet's secret`);
    },
  };
}

function introduction({ self, fleet, version, messageBytesMax, nonce }: Party): PlainObject {
  return { magic: MAGIC, node: self.node, session: self.session, fleet, version, messageBytesMax, nonce };
}

function readIntroduction(fields: PlainObject): Omit<Agreed, "protocol" | "address"> {
  if (bytesOf(fields, "nonce").length !== NONCE_BYTES) throw malformed("nonce");
  return {
    peer: { node: textOf(fields, "node"), session: textOf(fields, "session") },
    version: textOf(fields, "version"),
    messageBytesMax: countOf(fields, "messageBytesMax"),
  };
}

/** Lengths stand before the parts, or two transcripts could be cut differently and be the same bytes. */
function proofOf(secret: string, label: string, transcript: readonly [Uint8Array, Uint8Array]): Uint8Array {
  const hmac = createHmac("sha256", secret).update(label);
  for (const part of transcript) hmac.update(Uint8Array.of(part.length >>> 8, part.length)).update(part);
  return new Uint8Array(hmac.digest());
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

function readFields(message: Uint8Array): PlainObject {
  if (message.length > HANDSHAKE_BYTES_MAX) throw refused("a message of the handshake is too large");
  let value: PlainValue;
  try {
    const decoded = readMsgpack(message, "the handshake", 1);
    if (decoded.fault !== undefined) throw decoded.fault;
    value = decoded.value;
  } catch (cause) {
    throw refused("a message of the handshake cannot be read", undefined, cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Uint8Array) {
    throw malformed("form");
  }
  return value as PlainObject;
}

function rangeOf(fields: PlainObject): ProtocolRange {
  return { min: countOf(fields, "min"), max: countOf(fields, "max") };
}

function rangeText({ min, max }: ProtocolRange, version: string): string {
  return `link protocol ${min === max ? min : `${min} to ${max}`} (moonport ${version})`;
}

function textOf(fields: PlainObject, name: string): string {
  const value = fields[name];
  if (typeof value !== "string" || value === "" || value.length > NAME_CHARACTERS_MAX) throw malformed(name);
  return value;
}

function countOf(fields: PlainObject, name: string): number {
  const value = fields[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1) throw malformed(name);
  return value;
}

function bytesOf(fields: PlainObject, name: string): Uint8Array {
  const value = fields[name];
  if (!(value instanceof Uint8Array)) throw malformed(name);
  return value;
}

function malformed(name: string): MoonportError {
  return refused(`a message of the handshake is malformed (${name})`);
}

function refused(message: string, hint?: string, cause?: unknown): MoonportError {
  return MoonportError.of("link_refused", message, {
    ...(hint !== undefined && { hint }),
    ...(cause !== undefined && { cause }),
  });
}
