/** Directories that hold what is no more, or what was before. */
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

const DOERS = { doers: 4, clients: 0, objects: 1, destroyShare: 0 } as const;

export const DIRECTORIES: Record<string, Variant> = {
  "a directory takes rows in the order in which they come": {
    breaks: "A row that an earlier owner tells late takes the place of a newer one.",
    replaces: [
      replacing("directory/publisher", ({ Publisher }) => ({
        Publisher: class extends Publisher {
          constructor(parts: ConstructorParameters<typeof Publisher>[0]) {
            super({
              ...parts,
              callShard: (shard, method, [request], ...rest) => {
                const { rows, ...all } = request as unknown as { readonly rows: readonly (readonly unknown[])[] };
                const inOrder = rows.map(([key, , , ...row]) => [key, 1_000_000, ++arrived, ...row]);
                return parts.callShard(shard, method, [{ ...all, rows: inOrder } as never], ...rest);
              },
            });
          }
        },
      })),
    ],
    plan: {
      ...DOERS,
      nodes: 3,
      endingDoers: 0,
      strikeMs: 500,
      ...only({ pause: 3, partition: 2, cut_one_way: 3, slow_link: 2, cut: 2 }),
    },
    seed: 1,
    caughtBy: "directory",
  },
  "the row of an object that is gone stays": {
    breaks: "Directories do not hear that an object was destroyed.",
    replaces: [
      replacing("directory/publisher", ({ Publisher }) => ({
        Publisher: class extends Publisher {
          override gone(): void {}
        },
      })),
    ],
    plan: { ...DOERS, endingDoers: 3 },
    seed: 4,
    caughtBy: "directory",
  },
};

/** Of all shards: only that it rises counts. */
let arrived = 0;
