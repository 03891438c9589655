/**
 * This node as a member of a fleet: its journal, its links, its session, and what follows from them for claiming and shipping.
 *
 * It promises that peers reach its journal for as long as the session may be alive, and that its node hears at once when the
 * session has lapsed.
 */
import type { Bucket } from "../bucket/bucket.js";
import type { Member, ReplicaSet } from "../cluster/ownership.js";
import { quorumFor } from "../cluster/quorum.js";
import { Ring } from "../cluster/ring.js";
import { isOwn, MoonportError } from "../errors.js";
import { type ObjectIdentity, objectOfId, partitionOf } from "../identity.js";
import type { EntryRange, HeldEntries, JournalPort } from "../journal/contract.js";
import { Journal } from "../journal/journal.js";
import type { Network, PeerAddress, Peers } from "../links/contract.js";
import type { ProtocolRange } from "../links/handshake.js";
import { Links } from "../links/links.js";
import type { NodeRecord, SeenNode, SessionStanding } from "../membership/contract.js";
import { Members } from "../membership/members.js";
import { type ClaimReason, FleetCounters } from "../metrics/fleet-counters.js";
import type { FleetMeasures } from "../metrics/measured.js";
import type { FleetHooks, FleetParts, JoinedFleet } from "../node-options.js";
import type { ServedApp } from "../release/contract.js";
import type { Settings } from "../settings/settings.js";
import { ObjectKeys } from "../shipping/layout.js";
import { decodeManifest, ownershipOf } from "../shipping/manifest.js";
import { VERSION } from "../version.js";
import { ColdOrphans } from "./cold-orphans.js";
import { Handover } from "./handover.js";
import { remoteJournal, serveJournal } from "./journal-messages.js";
import { Senders } from "./senders.js";
import { Takeover } from "./takeover.js";
import { Upkeep } from "./upkeep.js";

const JOURNAL_FOLDER = "journal";
/** Asked of a peer: this node's record says something new. */
const LOOK = "fleet.look";
/** How long a node that stops waits for peers to have heard of it. */
const LAST_WORD_MS = 500;
/** In place of a session while there is none: peers that know the node from before reach its journal already. */
const JOINING = "joining";

export interface FleetOptions {
  /** Name of the node, the same across restarts. */
  readonly node: string;
  readonly zone: string;
  readonly weight: number;
  readonly network: Network;
  /** Shared by all nodes of the fleet. */
  readonly secret: string;
  /** Of links that it speaks. Default: this release's. */
  readonly protocols?: ProtocolRange;
  /** Where clients reach this node. */
  readonly clientAddress?: string;
  /** Says what else peers may ask, before they can. */
  readonly handle?: (peers: Peers) => void;
  /** Another process has this node's name (`node_replaced`): it will not answer any more, and may as well stop. */
  readonly replaced?: (error: MoonportError) => void;
  /** Its journal's disk has failed (`journal_broken`): it keeps nothing for others any more, and is to be started anew. */
  readonly journalBroken?: (error: MoonportError) => void;
}

interface Replicas {
  readonly members: readonly NodeRecord[];
  readonly ring: Ring;
  /** By node: those that sets may name. */
  readonly journals: ReadonlyMap<string, string>;
  readonly ofPartitions: ReplicaSet[];
}

export class FleetMember implements JoinedFleet {
  readonly node: string;
  readonly links: Links;
  readonly counters: FleetCounters;
  readonly #parts: FleetParts;
  /** What it is to have while it takes objects. */
  readonly #weight: number;
  readonly #journal: Journal;
  readonly #members: Members;
  readonly #remote = new Map<string, JournalPort>();
  readonly #senders: Senders;
  #ring = new Ring([]);
  /** As the members and the ring are, each made when it is first asked for. */
  #replicas: Replicas = { members: [], ring: this.#ring, journals: new Map(), ofPartitions: [] };
  readonly #tellJournalBroken: FleetOptions["journalBroken"];
  #hooks: FleetHooks | undefined;
  readonly #membersChanged: (() => void)[] = [];
  #takeover: Takeover | undefined;
  #handover: Handover | undefined;
  #upkeep: Upkeep | undefined;
  readonly #toldOfStop: (() => void)[] = [];
  #isStopping = false;
  #isLeaving = false;

  static async join(parts: FleetParts, options: FleetOptions): Promise<FleetMember> {
    const { world, bucket, settings, fleet } = parts;
    const { node, zone, weight, network, secret, protocols, clientAddress, handle, replaced } = options;
    const counters = new FleetCounters();
    let member: FleetMember | undefined;
    const journal = await Journal.open({
      world,
      counters: counters.journal,
      settings,
      folder: JOURNAL_FOLDER,
      recordEpoch: (object) => recordEpoch(bucket, object),
      broken: (cause) => member?.journalHasBroken(cause),
    });
    const links = new Links({
      world,
      settings,
      network,
      self: () => ({ node, session: member?.session ?? JOINING }),
      secret,
      fleet,
      version: VERSION,
      ...(protocols !== undefined && { protocols }),
      counters: counters.links,
      // The one on the other side may have died.
      lost: () => member?.lookNow(),
    });
    const senders = new Senders(settings.JOURNAL_OBJECTS_MAX);
    serveJournal(links, journal, senders, tailBytesMax(settings));
    links.handle(LOOK, async () => member?.lookNow());
    handle?.(links);
    try {
      const address = await links.start();
      const members = await Members.join({
        world,
        bucket,
        settings,
        log: world.log,
        self: {
          node,
          address,
          zone,
          weight,
          version: VERSION,
          journal: journal.id,
          ...(clientAddress && { clientAddress }),
        },
        events: {
          sessionEnded: () => member?.sessionEnded(),
          changed: () => member?.changed(),
          told: () => void member?.tellPeers(),
          lapsed: () => member?.lapsed(),
          joined: () => member?.joined(),
          replaced: (error) => replaced?.(error),
        },
      });
      member = new FleetMember(parts, options, links, journal, members, senders, counters);
      void member.tellPeers();
      if (journal.failure !== undefined) member.journalHasBroken(journal.failure);
      return member;
    } catch (error) {
      await links.stop();
      await journal.close();
      throw error;
    }
  }

  private constructor(
    parts: FleetParts,
    { node, weight, journalBroken }: Pick<FleetOptions, "node" | "weight" | "journalBroken">,
    links: Links,
    journal: Journal,
    members: Members,
    senders: Senders,
    counters: FleetCounters,
  ) {
    this.counters = counters;
    this.#parts = parts;
    this.node = node;
    this.#weight = weight;
    this.#tellJournalBroken = journalBroken;
    this.links = links;
    this.#journal = journal;
    this.#members = members;
    this.#senders = senders;
    this.#ring = new Ring(members.members());
  }

  get session(): string {
    return this.#members.self.session;
  }

  get members(): readonly NodeRecord[] {
    return this.#members.members();
  }

  get ring(): Ring {
    return this.#ring;
  }

  /** Of this node's journal since it was opened: entries that came, and syncs of the disk that they shared. */
  get journalCounts(): { readonly entries: number; readonly syncs: number } {
    return { entries: this.#senders.entries, syncs: this.#journal.syncs };
  }

  get measures(): FleetMeasures {
    return {
      counters: this.counters,
      journalEntries: this.#senders.entries,
      journalBytes: this.#journal.bytes,
      isJournalBroken: this.#journal.failure !== undefined,
      links: this.links.standing,
    };
  }

  isValid(): boolean {
    return this.#members.isValid();
  }

  /** Others that leave, or are drained, take nothing from it: where only such are left, each has what the ring gives it. */
  get isLeavingToOthers(): boolean {
    return this.#isLeaving && this.takers.length > 0;
  }

  claimed(object: ObjectIdentity, reason: ClaimReason | undefined): void {
    if (reason !== undefined) this.counters.claimed[reason]++;
    this.#handover?.claimed(object);
    if (reason === "handover") this.#tellJournals(object);
  }

  /**
   * A claim that asked no journal: they take who sent their last entries for the owner, and would not look for what this node leaves
   * when it dies. Where it is lost, the next entry says it.
   */
  #tellJournals(object: ObjectIdentity): void {
    const manifest = this.#hooks?.claims.held(object)?.manifest;
    if (manifest === undefined) return;
    const { epoch, seq } = manifest;
    for (const member of ownershipOf(manifest).set) {
      this.journalOf(member)
        .notice(object.id, { epoch, covered: seq })
        .catch(() => {});
    }
  }

  standing(session: string): Promise<SessionStanding> {
    return this.#members.standing(session);
  }

  nodeOf(session: string): string | undefined {
    return this.#members.members().find((member) => member.session === session)?.node;
  }

  /** @param tell called whenever other nodes are there than before, or they say something else of themselves */
  whenMembersChange(tell: () => void): void {
    this.#membersChanged.push(tell);
  }

  member(node: string): NodeRecord | undefined {
    return this.#members.member(node);
  }

  /** Where links reach a node. @throws MoonportError `node_unreachable` for one that is no member */
  peer(node: string): PeerAddress {
    const address = this.member(node)?.address;
    if (address === undefined) throw MoonportError.of("node_unreachable", `${node} is no member of the fleet now`);
    return { node, address };
  }

  get self(): NodeRecord {
    return this.#members.self;
  }

  seen(): readonly SeenNode[] {
    return this.#members.seen();
  }

  whyInvalid(): string | undefined {
    return this.#members.whyInvalid();
  }

  /** Why its journal takes nothing any more; undefined while it does. */
  whyJournalBroken(): string | undefined {
    return this.#journal.failure?.message;
  }

  serveClientsAt(address: string): void {
    this.#members.serveClientsAt(address);
  }

  tellReleases(releases: readonly ServedApp[]): void {
    this.#members.tellReleases(releases);
  }

  replicasFor(object: ObjectIdentity): ReplicaSet {
    const { ofPartitions } = this.#currentReplicas();
    const partition = partitionOf(object.id);
    let replicas = ofPartitions[partition];
    if (replicas === undefined) {
      replicas = this.#replicasOf(partition);
      ofPartitions[partition] = replicas;
    }
    return replicas;
  }

  #currentReplicas(): Replicas {
    const members = this.#members.members();
    if (this.#replicas.members !== members || this.#replicas.ring !== this.#ring) {
      const journals = journalsOf(members, this.self);
      this.#replicas = { members, ring: this.#ring, journals, ofPartitions: [] };
    }
    return this.#replicas;
  }

  #replicasOf(partition: number): ReplicaSet {
    const { members, journals } = this.#currentReplicas();
    const quorum = quorumFor(this.#parts.settings, journals.size);
    const set: Member[] = [];
    for (const node of this.#ring.replicaMembers(partition, this.node, members.length)) {
      const journal = journals.get(node);
      if (journal !== undefined && set.length < quorum.copies) set.push({ node, journal });
    }
    return { set, quorum };
  }

  mustRenew({ set, quorum }: ReplicaSet): boolean {
    const { journals } = this.#currentReplicas();
    const due = quorumFor(this.#parts.settings, journals.size);
    if (quorum.copies !== due.copies || quorum.acksToLand !== due.acksToLand) return true;
    return set.some(({ node, journal }) => journals.get(node) !== journal);
  }

  /** As {@link Links.request}; what does not get through may mean that the node has died. */
  readonly ask: Peers["request"] = async (to, kind, body, options) => {
    try {
      return await this.links.request(to, kind, body, options);
    } catch (error) {
      if (isOfLink(error)) this.#members.lookNow();
      throw error;
    }
  };

  private lookNow(): void {
    this.#members.lookNow();
  }

  journalOf({ node, journal }: Member): JournalPort {
    if (journal === this.#journal.id) return this.#ownJournal;
    let remote = this.#remote.get(node);
    if (remote === undefined) {
      const peers = { request: this.ask };
      const { world, settings } = this.#parts;
      const addressOf = (): string | undefined => this.#members.member(node)?.address;
      remote = remoteJournal(world, peers, node, addressOf, tailBytesMax(settings));
      this.#remote.set(node, remote);
    }
    return remote;
  }

  ownEntries(object: string, range: EntryRange): Promise<HeldEntries | undefined> {
    return this.#journal.entries(object, range);
  }

  readonly #ownJournal: JournalPort = {
    append: (object, message) => {
      this.#senders.entryFrom(object, this.session);
      return this.#journal.append(object, message);
    },
    notice: async (object, notice) => {
      const isTaken = this.#senders.wordFrom(object, this.session);
      const answer = await this.#journal.notice(object, notice);
      if (answer?.kind === "noted") isTaken();
      return answer;
    },
    promise: (object, request) => this.#journal.promise(object, request),
    promiseMany: (asked) => this.#journal.promiseMany(asked),
  };

  /** The node can serve now: what its journal holds of the dead is taken over. */
  begin(hooks: FleetHooks): void {
    const { world, settings, bucket } = this.#parts;
    this.#hooks = hooks;
    this.#takeover = new Takeover({
      world,
      settings,
      isBucketEmbedded: bucket.atomic,
      claims: hooks.claims,
      journal: this.#journal,
      sentBy: (object) => this.#senders.sessionOf(object),
      isLive: (session) => this.#members.known(session) === "live",
      rankOf: (partition) => this.#rankOf(partition),
      isValid: () => this.isValid(),
      counters: this.counters,
      claimsFirst: (claims) => hooks.claimsFirst(claims),
      misplaced: () => this.#handover?.begin(),
    });
    this.#takeover.begin();
    this.#upkeep = this.#newUpkeep(hooks);
    this.#upkeep.begin();
    this.#handover = new Handover({
      world,
      settings,
      self: this.node,
      hooks,
      homesOf: (partition) => this.#ring.homesOf(partition),
      isTaker: (node) => this.takers.some((taker) => taker.node === node),
      isValid: () => this.isValid(),
      counters: this.counters,
    });
  }

  #newUpkeep(hooks: FleetHooks): Upkeep {
    const { world, settings } = this.#parts;
    const cold = new ColdOrphans({
      world,
      settings,
      claims: hooks.claims,
      journal: this.#journal,
      sentBy: (object) => this.#senders.sessionOf(object),
      isLive: (session) => this.#members.known(session) === "live",
      rankOf: (partition) => this.#rankOf(partition),
    });
    return new Upkeep({
      world,
      settings,
      isValid: () => this.isValid() && !this.isLeavingToOthers,
      renewSets: (recordsMax) => hooks.renewSets(recordsMax),
      cold,
    });
  }

  /** The node that is to have the partition's objects: this one only while it may claim them, unless nobody else is there. */
  homeOf(partition: number): string {
    const homes = this.#ring.homesOf(partition);
    const mayClaim = !this.isLeavingToOthers && this.isValid();
    const home = mayClaim ? homes[0] : homes.find((node) => node !== this.node);
    return home ?? this.node;
  }

  /** Whether it gives its objects away, or has. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Objects that are this node's now. */
  get held(): number {
    return this.#hooks?.claims.all.length ?? 0;
  }

  /** The other nodes that take objects. */
  get takers(): readonly NodeRecord[] {
    return this.members.filter(({ node, weight }) => node !== this.node && weight > 0);
  }

  async leave(untilMs: number): Promise<boolean> {
    this.#isLeaving = true;
    // No node prefers it any more: what it gives away is not sent back.
    this.#members.weigh(0);
    return (await this.#handover?.leave(untilMs)) ?? true;
  }

  /** It takes objects again. */
  remain(): void {
    this.#isLeaving = false;
    this.#members.weigh(this.#weight);
    this.#handover?.remain();
  }

  /** Whether it has begun to stop: no other node is asked for anything any more. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** @param tell called once, when it begins to stop */
  whenStopping(tell: () => void): void {
    this.#toldOfStop.push(tell);
  }

  /** Ends the session at once, so that nobody waits for its death, then everything else. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const tell of this.#toldOfStop.splice(0)) tell();
    // What is under way of these may wait long for others.
    const ending = Promise.all([this.#upkeep?.stop(), this.#takeover?.stop(), this.#handover?.stop()]);
    await this.#members.stop();
    await this.tellPeers();
    await ending;
    await this.links.stop();
    await this.#journal.close();
  }

  #rankOf(partition: number): number {
    return this.#ring.homesOf(partition).indexOf(this.node);
  }

  isHomeOf(partition: number): boolean {
    return this.#rankOf(partition) === 0;
  }

  /** They look at the members' records now, and not up to a third of the ttl later. Whom it does not reach finds out by himself. */
  private async tellPeers(): Promise<void> {
    const others = this.members.filter(({ node }) => node !== this.node);
    const told = others.map(({ node, address }) =>
      this.links.request({ node, address }, LOOK, {}, { timeoutMs: LAST_WORD_MS }).catch(() => {}),
    );
    await Promise.all(told);
  }

  /** Told before `changed`: by the ring of before, the dead would still be the home of what they leave. */
  private sessionEnded(): void {
    const isSameRing = this.#refreshRing();
    this.#takeover?.begin();
    this.#upkeep?.membersChanged();
    this.#hooks?.sessionEnded();
    if (!isSameRing) this.#handover?.begin();
  }

  /** @returns whether it is the same as before */
  #refreshRing(): boolean {
    const members = this.#members.members();
    const isSame = this.#ring.isOf(members);
    if (!isSame) this.#ring = new Ring(members);
    return isSame;
  }

  private changed(): void {
    const isSameRing = this.#refreshRing();
    this.#upkeep?.membersChanged();
    this.#hooks?.membersChanged();
    if (!isSameRing) this.#handover?.begin();
    for (const tell of this.#membersChanged) tell();
  }

  /** What it has acknowledged stays on its disk and is there again after the next start; until then others are to do without it. */
  private journalHasBroken(cause: MoonportError): void {
    if (this.#isStopping) return;
    this.#members.tellJournalBroken();
    const message = `the disk of this node's journal has failed: ${cause.message}`;
    this.#tellJournalBroken?.(
      MoonportError.of("journal_broken", message, {
        cause,
        hint: "see to the disk, and start the node again on its data folder: what the journal holds is not lost",
      }),
    );
  }

  private lapsed(): void {
    this.#hooks?.lapsed();
  }

  private joined(): void {
    this.#takeover?.begin();
    this.#upkeep?.membersChanged();
    this.#hooks?.sessionEnded();
  }
}

/**
 * Which journals sets may name, by node. A node that was started under another name with the folder of before has its journal:
 * until the old name is known to be dead two members have one, and a set that named it twice would count one disk as two. It is
 * in the folder of whoever began last, for the others hold it no more.
 */
function journalsOf(members: readonly NodeRecord[], self: NodeRecord): ReadonlyMap<string, string> {
  const keepers = new Map<string, NodeRecord>();
  for (const member of members) {
    // What takes nothing would be waited for by each write, and is one of those that a takeover has to do without.
    if (member.journalBroken === true) continue;
    const other = keepers.get(member.journal);
    if (other === undefined || (other.node !== self.node && other.session < member.session)) {
      keepers.set(member.journal, member);
    }
  }
  // Its own stands in the place of any other's of that name; where no journal takes anything the bucket alone does, and a set names one.
  if (self.journalBroken !== true || keepers.size === 0) keepers.set(self.journal, self);
  return new Map(Array.from(keepers.values(), ({ node, journal }) => [node, journal]));
}

/** Of one answer: half a message, so that a flight which is larger still fits. */
function tailBytesMax({ LINK_MESSAGE_BYTES_MAX }: Pick<Settings, "LINK_MESSAGE_BYTES_MAX">): number {
  return Math.floor(LINK_MESSAGE_BYTES_MAX / 2);
}

function isOfLink(error: unknown): boolean {
  return isOwn(error, "node_unreachable", "link_broken");
}

/** J6: what the object's record names by now. */
async function recordEpoch(bucket: Bucket, id: string): Promise<number> {
  const found = await bucket.get(new ObjectKeys(objectOfId(id)).manifest);
  return found === undefined ? 0 : decodeManifest(id, found.bytes).epoch;
}
