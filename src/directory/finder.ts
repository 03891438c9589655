/**
 * Answers a query of a class's directory: every shard is asked for its own page, and the pages are merged in the order asked for.
 * No object of the class is woken.
 */
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { DirectoryDeclaration, DirectoryQuery } from "../lua/contract.js";
import type { FoundPage, FoundRow } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import type { PlainObject, PlainValue, SqlValue } from "../values.js";
import { cursorAt, placeOf } from "./cursor.js";
import { type Columns, KEY_COLUMN } from "./filter/filter.js";
import { parseFilter } from "./filter/parse.js";
import { compareByOrder, type OrderTerm, parseOrder } from "./order.js";
import { type ShardPage, type ShardQuery, shardObject } from "./shard-contract.js";

export interface FinderParts {
  readonly settings: Pick<Settings, "DIRECTORY_SHARDS" | "DIRECTORY_PAGE_MAX" | "DIRECTORY_FILTER_BYTES_MAX">;
  /** @throws MoonportError `app_not_found`, `class_not_found`, `no_directory` */
  declarationOf(app: string, className: string): DirectoryDeclaration;
  askShard(shard: ObjectIdentity, method: string, args: readonly PlainValue[], expiresMs: number): Promise<PlainValue>;
}

export interface FindInput {
  readonly app: string;
  readonly className: string;
  readonly query: DirectoryQuery;
  /** Monotonic. */
  readonly expiresMs: number;
}

const LIMIT_DEFAULT = 20;

export class Finder {
  readonly #parts: FinderParts;

  constructor(parts: FinderParts) {
    this.#parts = parts;
  }

  /** @throws MoonportError `no_directory`, `bad_filter`, `bad_order`, `bad_cursor`, `bad_option`, what a shard answers */
  async find({ app, className, query, expiresMs }: FindInput): Promise<FoundPage> {
    const { settings } = this.#parts;
    const { columns } = this.#parts.declarationOf(app, className);
    const order = parseOrder(query.order ?? "", columns);
    const limit = query.limit ?? LIMIT_DEFAULT;
    checkLimit(limit, settings.DIRECTORY_PAGE_MAX);
    const { where = "", params = [] } = query;
    const hasFilter = where.trim() !== "";
    if (hasFilter) parseFilter(where, columns, params, { bytesMax: settings.DIRECTORY_FILTER_BYTES_MAX });
    const asked: ShardQuery = {
      columns: { ...columns },
      where: hasFilter ? where : null,
      parameters: params as PlainValue,
      order: query.order ?? "",
      place: query.after === undefined ? null : placeOf(query.after, className, order),
      limit,
    };
    const ask = <T>(method: string): Promise<T[]> => this.#askAll(app, className, method, asked, expiresMs);
    const [pages, counts] = await Promise.all([
      ask<ShardPage>("find"),
      query.count === true ? ask<number>("count") : [],
    ]);
    const page = merged(pages, { className, columns, order, limit });
    return query.count === true ? { ...page, count: counts.reduce((sum, count) => sum + count, 0) } : page;
  }

  #askAll<T>(app: string, className: string, method: string, query: ShardQuery, expiresMs: number): Promise<T[]> {
    const { DIRECTORY_SHARDS } = this.#parts.settings;
    return Promise.all(
      Array.from({ length: DIRECTORY_SHARDS }, async (_, number) => {
        const shard = shardObject(app, className, number, DIRECTORY_SHARDS);
        // Its methods answer what shard-contract says.
        return (await this.#parts.askShard(shard, method, [query as unknown as PlainValue], expiresMs)) as T;
      }),
    );
  }
}

interface MergeParts {
  readonly className: string;
  readonly columns: Columns;
  readonly order: readonly OrderTerm[];
  readonly limit: number;
}

function merged(pages: readonly ShardPage[], { className, columns, order, limit }: MergeParts): FoundPage {
  const names = Object.keys(columns);
  const placeAt = order.map(({ column }) => (column === KEY_COLUMN ? 0 : names.indexOf(column) + 2));
  const heads = pages.map(({ rows, hasMore }) => ({ rows, hasMore, next: 0 }));
  const rows: FoundRow[] = [];
  let place: readonly SqlValue[] | undefined;
  let isCut = false;
  while (rows.length < limit) {
    let best: { head: (typeof heads)[number]; place: readonly SqlValue[] } | undefined;
    for (const head of heads) {
      const row = head.rows[head.next];
      // Behind what a shard has told there may be more: what the others have there must wait.
      if (row === undefined && head.hasMore) isCut = true;
      if (row === undefined) continue;
      const candidate = placeAt.map((at) => row[at] ?? null);
      if (best === undefined || compareByOrder(order, candidate, best.place) < 0) best = { head, place: candidate };
    }
    if (best === undefined || isCut) break;
    rows.push(foundRow(best.head.rows[best.head.next++] as readonly SqlValue[], names, columns));
    place = best.place;
  }
  const hasMore = heads.some((head) => head.hasMore || head.next < head.rows.length);
  return hasMore && place !== undefined ? { rows, after: cursorAt(className, order, place) } : { rows };
}

function foundRow(cells: readonly SqlValue[], names: readonly string[], columns: Columns): FoundRow {
  const row: PlainObject = {};
  names.forEach((name, at) => {
    const cell = cells[at + 2] ?? null;
    if (cell !== null) row[name] = columns[name] === "boolean" ? cell === 1 : cell;
  });
  const staleSinceMs = cells[1];
  return { key: String(cells[0]), row, ...(typeof staleSinceMs === "number" && { staleSinceMs }) };
}

function checkLimit(limit: number, max: number): void {
  if (Number.isInteger(limit) && limit >= 1 && limit <= max) return;
  throw MoonportError.of("bad_option", `limit: ${limit} is no whole number from 1 to ${max}`, {
    hint: "page on with after; DIRECTORY_PAGE_MAX is the largest page",
  });
}
