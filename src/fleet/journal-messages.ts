/** Journals behind links: a peer's journal as a port, and this node's own served to peers. */
import type { CoverageNotice, EntryMessage, PromiseRequest } from "../cluster/journal-rules.js";
import { MoonportError } from "../errors.js";
import type { JournalPort, Payload } from "../journal/contract.js";
import type { PeerAddress, Peers } from "../links/contract.js";
import type { World } from "../world/world.js";
import {
  answerPromises,
  PromiseBatches,
  type PromisesAnswer,
  type PromisesBody,
  type PromisingJournal,
  partFor,
} from "./promise-batches.js";
import type { Senders } from "./senders.js";
import { fromWire, toWire, type WiredPromise } from "./wired-promise.js";

const APPEND = "journal.append";
const NOTICE = "journal.notice";
const PROMISE = "journal.promise";
const PROMISES = "journal.promises";

/** Field by field in a row: a hot object sends thousands a second. */
type AppendBody = readonly [
  object: string,
  epoch: number,
  covered: number,
  afterSeq: number,
  toSeq: number,
  payload: Uint8Array,
];

type PromiseBody = readonly [object: string, epoch: number, journal: string, afterSeq?: number, tailBytesMax?: number];

/**
 * @param addressOf where the node is now; undefined while it is not a member
 * @param tailBytesMax of entries in one answer, but for one that is larger by itself
 */
export function remoteJournal(
  world: Pick<World, "timers">,
  peers: Pick<Peers, "request">,
  node: string,
  addressOf: () => string | undefined,
  tailBytesMax: number,
): JournalPort {
  const ask = async (kind: string, body: unknown): Promise<unknown> =>
    peers.request(peerOf(node, addressOf()), kind, body);
  const promises = new PromiseBatches({
    world,
    tailBytesMax,
    send: async (body) => (await ask(PROMISES, body)) as PromisesAnswer,
    sendOne: async (object, { epoch, journal }, afterSeq) => {
      const body: PromiseBody = [object, epoch, journal, afterSeq, tailBytesMax];
      return fromWire((await ask(PROMISE, body)) as WiredPromise);
    },
  });
  return {
    append: (object, { epoch, covered, afterSeq, toSeq, payload }) => {
      const body: AppendBody = [object, epoch, covered, afterSeq, toSeq, payload];
      return ask(APPEND, body) as ReturnType<JournalPort["append"]>;
    },
    notice: async (object, notice) => {
      const answer = await ask(NOTICE, [object, notice.epoch, notice.covered]);
      return (answer ?? undefined) as Awaited<ReturnType<JournalPort["notice"]>>;
    },
    promise: (object, request) => promises.promise(object, request),
    promiseMany: (asked) => promises.promiseMany(asked),
  };
}

/**
 * @param senders told whose entries come, and whose word of coverage is taken: of a session that was overtaken it is not
 * @param answerBytesMax of tails in one answer, but for one that is larger by itself
 */
export function serveJournal(
  peers: Peers,
  journal: JournalPort & PromisingJournal,
  senders: Senders,
  answerBytesMax: number,
): void {
  peers.handle(APPEND, (body, from) => {
    const [object, epoch, covered, afterSeq, toSeq, payload] = body as AppendBody;
    const message: EntryMessage<Payload> = { epoch, covered, afterSeq, toSeq, payload };
    senders.entryFrom(object, from.session);
    return journal.append(object, message);
  });
  peers.handle(NOTICE, async (body, from) => {
    const [object, epoch, covered] = body as [string, number, number];
    const notice: CoverageNotice = { epoch, covered };
    const isTaken = senders.wordFrom(object, from.session);
    const answer = await journal.notice(object, notice);
    if (answer?.kind === "noted") isTaken();
    return answer;
  });
  peers.handle(PROMISE, async (body) => {
    const [object, epoch, name, afterSeq = 0, tailBytesMax] = body as PromiseBody;
    const request: PromiseRequest = { epoch, journal: name };
    return toWire(await journal.promise(object, request, partFor(tailBytesMax, answerBytesMax, afterSeq)));
  });
  peers.handle(PROMISES, (body) => answerPromises(journal, body as PromisesBody, answerBytesMax));
}

function peerOf(node: string, address: string | undefined): PeerAddress {
  if (address === undefined) throw MoonportError.of("node_unreachable", `${node} is no member of the fleet now`);
  return { node, address };
}
