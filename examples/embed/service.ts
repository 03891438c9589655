/**
 * A guestbook as a web service of your own, with a Moonport node inside it: the routes are yours, the state is in objects.
 *
 * One route calls an object, one runs a unit, one streams an object's events to browsers and resumes where they left off.
 */
import { Readable } from "node:stream";
import Fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import { Moonport, MoonportError, type MoonportObject, type Subscription } from "moonport";
import { Moderator } from "./moderator.js";

/** The class as TypeScript sees it; see classes/Guestbook.lua. */
interface Guestbook {
  sign(name: string, text: string): Entry;
  entries(limit?: number): Entry[];
}

interface Entry {
  id: number;
  name: string;
  text: string;
  at: number;
}

export interface ServiceOptions {
  /** With classes/ and units/ in it. */
  readonly dir: string;
  readonly dataDir: string;
  readonly port: number;
}

export interface Service {
  readonly url: string;
  close(): Promise<void>;
}

interface BookRoute {
  Params: { book: string };
}

export async function startService({ dir, dataDir, port }: ServiceOptions): Promise<Service> {
  const native = { Moderator: new Moderator(["moist"]) };
  const moonport = await Moonport.open({ dir, dataDir, native });
  const server = serverOf(moonport);
  const url = await server.listen({ host: "127.0.0.1", port });
  return {
    url,
    // The node first: what runs gets its answer, the streams end. Then nothing that is still connected matters.
    close: async () => {
      await moonport.close();
      await server.close();
    },
  };
}

function serverOf(moonport: Moonport): FastifyInstance {
  const server = Fastify({ forceCloseConnections: true });
  const bookOf = (key: string): MoonportObject<Guestbook> => moonport.object<Guestbook>("Guestbook", key);

  server.get<BookRoute>("/books/:book", async ({ params }) => await bookOf(params.book).entries(20));

  server.post<BookRoute>("/books/:book/entries", async ({ params, body }, reply) => {
    const { status, headers, body: answer } = await moonport.unit("sign", { query: params, body });
    return reply.code(status).headers(headers).send(answer);
  });

  server.get<BookRoute>("/books/:book/live", ({ params, headers }, reply) => {
    const last = headers["last-event-id"];
    const from = typeof last === "string" ? { after: Number(last) } : { snapshot: "entries" };
    return stream(bookOf(params.book).subscribe({ from, snapshotAfterGap: { snapshot: "entries" } }), reply);
  });

  server.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof MoonportError)) throw error;
    const { code, message, hint, entry } = error;
    return reply.code(entry.status).send({ code, message, hint });
  });
  return server;
}

/** Server-Sent Events: a browser that comes back tells the number that it saw last, and misses nothing. */
async function stream(items: Subscription, reply: FastifyReply): Promise<FastifyReply> {
  await items.ready;
  reply.raw.once("close", () => items.close());
  return reply
    .headers({ "content-type": "text/event-stream", "cache-control": "no-store" })
    .send(Readable.from(messages(items)));
}

async function* messages(items: Subscription): AsyncGenerator<string> {
  for await (const item of items) {
    if (item.kind === "snapshot") yield message(item.number, "entries", item.value);
    if (item.kind === "event") yield message(item.number, item.name, item.data);
  }
}

function message(id: number, event: string, data: unknown): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
