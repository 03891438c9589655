/**
 * What travels between the nodes of a fleet and a class's directory shards: which object a shard is, and what its methods take.
 *
 * An object's partition chooses its shard, so whoever holds an object knows where its row belongs.
 */
import { identityOf, type ObjectIdentity, partitionOf, SYSTEM_APP } from "../identity.js";
import type { DirectoryDeclaration } from "../lua/contract.js";
import { shapeOf } from "../object/directory-shape.js";
import type { PlainObject, PlainValue, SqlValue } from "../values.js";

export const DIRECTORY_CLASS = "Directory";

/**
 * How many there are is part of the key: with another DIRECTORY_SHARDS other shards hold the class, filled anew.
 * @param number from 0, below `shards`
 */
export function shardObject(app: string, className: string, number: number, shards: number): ObjectIdentity {
  return identityOf(SYSTEM_APP, DIRECTORY_CLASS, `${app}/${className}/${number}-of-${shards}`);
}

export function shardNumberOf({ id }: Pick<ObjectIdentity, "id">, shards: number): number {
  return partitionOf(id) % shards;
}

/** A class's declaration as it travels: `[shape, columns, index]`. */
export type TravellingShape = [shape: string, columns: PlainObject, index: PlainValue[]];

export function travelling(declaration: DirectoryDeclaration): TravellingShape {
  return [shapeOf(declaration), { ...declaration.columns }, [...declaration.index]];
}

/** A row of null takes the object's row away. `shape` is the one that it was derived under. */
export type TravellingRow = [
  key: string,
  epoch: number,
  seq: number,
  shape: string,
  staleSinceMs: number | null,
  row: PlainObject | null,
];

/** Argument of `apply`. */
export interface ApplyRequest {
  readonly shape: TravellingShape;
  /** There were no objects of the class when it came up with this shape: nothing has to be brought over. */
  readonly isFresh: boolean;
  readonly nowMs: number;
  readonly rows: readonly TravellingRow[];
}

/** Argument of `find` and `count`. */
export interface ShardQuery {
  readonly columns: PlainObject;
  readonly where: string | null;
  readonly parameters: PlainValue;
  readonly order: string;
  readonly place: readonly SqlValue[] | null;
  readonly limit: number;
}

/** Answer of `find`: rows as `[key, stale since, ...columns]`, in order. */
export interface ShardPage {
  readonly rows: readonly (readonly SqlValue[])[];
  /** There may be more behind the last of them. */
  readonly hasMore: boolean;
}

/** Answer of `status`. */
export interface ShardStatus {
  readonly rows: number;
  /** Of them, derived under the shape that was asked about. */
  readonly current: number;
  /** Whose derivation fails. */
  readonly stale: number;
  /** The shape that everything was brought over to; null before the first time. */
  readonly settled: string | null;
}
