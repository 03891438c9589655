/**
 * What is deployed, as every door speaks of it: releases of an app, and which of them nodes serve.
 *
 * A release is a set of files that does not change any more. An app's releases are numbered from 1 and stand in one record in
 * the bucket; the last of them is the current one. To roll back is to deploy the files of an earlier one again, under a new
 * number.
 */

export interface ReleaseFile {
  /** `classes/Auction.lua`, `units/order.lua`, `lib/money/rates.lua`. */
  readonly path: string;
  readonly text: string;
}

export interface Release {
  readonly number: number;
  /** Of this deployment (UUIDv7): no other has it. */
  readonly id: string;
  /** SHA-256 of its files, in hex: two releases with the same files have the same. */
  readonly bundle: string;
  readonly files: number;
  /** Of all their texts. */
  readonly bytes: number;
  /** Wall clock of the node that deployed it, milliseconds. */
  readonly atMs: number;
  /** As whoever deployed it calls themselves. */
  readonly by: string;
  readonly message: string;
  /** The release whose files it brings back. */
  readonly rollbackOf?: number;
  /** It serves objects with more migrations than it declares as newer releases left them: whoever deployed it said so. */
  readonly acceptsMigrated?: true;
}

export interface DeployTerms {
  /** At most 200 characters. */
  readonly by: string;
  /** At most 1,000 characters. Default: none. */
  readonly message?: string;
  /** The release that is current: when it is another one by then, nothing is deployed (`deploy_conflict`). 0: there is none. */
  readonly over?: number;
  /** Serve objects that have applied more migrations than the release declares, as newer releases left them. */
  readonly acceptMigrated?: boolean;
  /** Deploy although nodes say that they cannot load it; they keep what they serve. */
  readonly force?: boolean;
}

export interface DeployRequest extends DeployTerms {
  readonly app: string;
  readonly files: readonly ReleaseFile[];
}

export interface RollbackRequest extends DeployTerms {
  readonly app: string;
  /** Default: the newest that has other files than the current one. */
  readonly to?: number;
}

/** What a node serves of an app. */
export interface ServedApp {
  readonly app: string;
  /** `folder`: the files that it was started with. `none`: nothing yet. */
  readonly source: "release" | "folder" | "none";
  /** Where it serves one. */
  readonly release?: number;
  /** A newer one that it cannot serve, and why. */
  readonly failed?: { readonly release: number; readonly message: string };
}

/** The same, of a node of the fleet. */
export interface NodeRelease extends Omit<ServedApp, "app"> {
  /** Absent for a node that is alone. */
  readonly node?: string;
  /** It did not answer: what it serves is what it last said. */
  readonly unreachable?: true;
}

export interface AppReleases {
  readonly app: string;
  /** Those that are kept, the oldest first; the last is current. */
  readonly releases: readonly Release[];
  readonly nodes: readonly NodeRelease[];
}

export interface Deployed {
  readonly release: Release;
  /** False when the current release had the same files already, and nothing was done. */
  readonly changed: boolean;
  readonly nodes: readonly NodeRelease[];
}

/** An object that a release with fewer migrations may not serve. */
export interface MigratedObject {
  /** `app/Class/key` */
  readonly object: string;
  /** Migrations that it has applied, and how many of them the release declares. */
  readonly applied: number;
  readonly declared: number;
}

export interface ReleaseApi {
  /**
   * Makes the files the app's current release; resolves when every node that answers has switched to it, or said why not.
   * @throws MoonportError `bad_release`, `too_large`, `class_invalid`, `unit_invalid`, `app_not_found`, `deploy_conflict`,
   * `objects_migrated`, `objects_unread`, `release_unloadable`, `bucket_failed`; with outcome `unknown` it may have happened
   */
  deploy(request: DeployRequest): Promise<Deployed>;
  /** Deploys the files of an earlier release again. @throws MoonportError as {@link deploy}, `release_not_found` */
  rollback(request: RollbackRequest): Promise<Deployed>;
  /** @throws MoonportError `app_not_found`, `bucket_failed`, `release_damaged` */
  releases(app: string): Promise<AppReleases>;
}
