// The work of classes/Work.lua as a Durable Object does it: it reads, inserts, sets, notes an event and leaves a row behind.
import { DurableObject } from "cloudflare:workers";

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, who TEXT NOT NULL, amount INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS event (n INTEGER PRIMARY KEY, name TEXT NOT NULL, data TEXT NOT NULL, at_ms INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS row (id INTEGER PRIMARY KEY CHECK (id = 1), who TEXT, amount INTEGER);
`;

export class Work extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec(SCHEMA);
  }

  write(who, amount) {
    const { sql, kv } = this.ctx.storage;
    const [before] = sql.exec("SELECT id, amount FROM entries ORDER BY id DESC LIMIT 1");
    sql.exec("INSERT INTO entries (who, amount) VALUES (?, ?)", who, amount);
    kv.put("last", { who, amount });
    const data = JSON.stringify({ who, amount });
    sql.exec("INSERT INTO event (name, data, at_ms) VALUES ('written', ?, ?)", data, Date.now());
    sql.exec("INSERT OR REPLACE INTO row VALUES (1, ?, ?)", who, amount);
    return { before: before?.amount };
  }

  look() {
    const { sql, kv } = this.ctx.storage;
    const newest = sql.exec("SELECT id, who, amount FROM entries ORDER BY id DESC LIMIT 1").one();
    const last = kv.get("last");
    return { id: newest.id, who: newest.who, amount: last.amount };
  }

  async fetch(request) {
    if (request.headers.get("Upgrade") === "websocket") return this.#socket();
    const method = new URL(request.url).pathname.split("/").at(-1);
    const args = request.method === "POST" ? await request.json() : [];
    return Response.json(this.#call(method, args));
  }

  // The platform's own advice for sockets: they outlive the object's stay in memory.
  #socket() {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(socket, text) {
    const { id, method, args } = JSON.parse(text);
    socket.send(JSON.stringify({ id, value: this.#call(method, args) }));
  }

  #call(method, args) {
    return method === "write" ? this.write(...args) : this.look();
  }
}

// As a node's own socket: one for all objects.
function sharedSocket(env) {
  const { 0: client, 1: server } = new WebSocketPair();
  server.accept();
  const objects = new Map();
  server.addEventListener("message", async ({ data }) => {
    const { id, key, method, args } = JSON.parse(data);
    const object = objects.get(key) ?? env.work.get(env.work.idFromName(key));
    objects.set(key, object);
    server.send(JSON.stringify({ id, value: await object[method](...args) }));
  });
  return new Response(null, { status: 101, webSocket: client });
}

// The paths are those of a moonport node, so that one load asks both: /v1/default/Work/KEY/METHOD.
export default {
  fetch(request, env) {
    if (new URL(request.url).pathname === "/v1/socket") return sharedSocket(env);
    const [, , , , key] = new URL(request.url).pathname.split("/");
    return env.work.get(env.work.idFromName(key)).fetch(request);
  },
};
