/** Journals behind links: a peer's journal as a port, and this node's own served to peers. */
import { EntryRun } from "../cluster/entry-run.js";
import type {
  CoverageNotice,
  EntryMessage,
  JournalEntry,
  PromiseAnswer,
  PromiseRequest,
} from "../cluster/journal-rules.js";
import { MoonportError } from "../errors.js";
import type { JournalPort, Payload } from "../journal/contract.js";
import type { PeerAddress, Peers } from "../links/contract.js";

const APPEND = "journal.append";
const NOTICE = "journal.notice";
const PROMISE = "journal.promise";

/** Field by field in a row: a hot object sends thousands a second. */
type AppendBody = readonly [
  object: string,
  epoch: number,
  covered: number,
  afterSeq: number,
  toSeq: number,
  payload: Uint8Array,
];

type WiredPromise =
  | Exclude<PromiseAnswer<Payload>, { kind: "promised" }>
  | {
      readonly kind: "promised";
      readonly journal: string;
      readonly epoch: number;
      readonly tailEpoch: number;
      readonly base: number;
      readonly have: number;
      readonly entries: readonly JournalEntry<Payload>[];
    };

/** @param addressOf where the node is now; undefined while it is not a member */
export function remoteJournal(
  peers: Pick<Peers, "request">,
  node: string,
  addressOf: () => string | undefined,
): JournalPort {
  const ask = async (kind: string, body: unknown): Promise<unknown> =>
    peers.request(peerOf(node, addressOf()), kind, body);
  return {
    append: (object, { epoch, covered, afterSeq, toSeq, payload }) => {
      const body: AppendBody = [object, epoch, covered, afterSeq, toSeq, payload];
      return ask(APPEND, body) as ReturnType<JournalPort["append"]>;
    },
    notice: async (object, notice) => {
      const answer = await ask(NOTICE, [object, notice.epoch, notice.covered]);
      return (answer ?? undefined) as Awaited<ReturnType<JournalPort["notice"]>>;
    },
    promise: async (object, request) =>
      fromWire((await ask(PROMISE, [object, request.epoch, request.journal])) as WiredPromise),
  };
}

/** @param heard told whose entry is about to be kept */
export function serveJournal(
  peers: Peers,
  journal: JournalPort,
  heard: (object: string, session: string) => void,
): void {
  peers.handle(APPEND, (body, from) => {
    const [object, epoch, covered, afterSeq, toSeq, payload] = body as AppendBody;
    const message: EntryMessage<Payload> = { epoch, covered, afterSeq, toSeq, payload };
    heard(object, from.session);
    return journal.append(object, message);
  });
  peers.handle(NOTICE, (body) => {
    const [object, epoch, covered] = body as [string, number, number];
    const notice: CoverageNotice = { epoch, covered };
    return journal.notice(object, notice);
  });
  peers.handle(PROMISE, async (body) => {
    const [object, epoch, name] = body as [string, number, string];
    const request: PromiseRequest = { epoch, journal: name };
    return toWire(await journal.promise(object, request));
  });
}

function peerOf(node: string, address: string | undefined): PeerAddress {
  if (address === undefined) throw MoonportError.of("node_unreachable", `${node} is no member of the fleet now`);
  return { node, address };
}

function toWire(answer: PromiseAnswer<Payload>): WiredPromise {
  if (answer.kind !== "promised") return answer;
  const { kind, journal, epoch, tail } = answer;
  const { tailEpoch, base, have, entries } = tail;
  return { kind, journal, epoch, tailEpoch, base, have, entries: [...entries] };
}

function fromWire(wired: WiredPromise): PromiseAnswer<Payload> {
  if (wired.kind !== "promised") return wired;
  const { kind, journal, epoch, tailEpoch, base, have, entries } = wired;
  return { kind, journal, epoch, tail: { tailEpoch, base, have, entries: EntryRun.of(...entries) } };
}
