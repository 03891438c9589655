/** Hands out the page: its files, the client that it imports, and where the node is. */
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { packageRoot } from "../../cli/package-root.js";

export interface PageServerOptions {
  /** 0 picks a free one. */
  readonly port: number;
  /** The folder with index.html and style.css. */
  readonly page: string;
  /** The node's address, for the page to connect to. */
  readonly node: string;
}

export interface PageServer {
  readonly url: string;
  stop(): void;
}

const HOST = "127.0.0.1";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".js": "text/javascript; charset=utf-8",
};

/** @throws Error when the port is taken */
export async function servePage({ port, page, node }: PageServerOptions): Promise<PageServer> {
  // index.html has an import map that gives these paths the names that the page imports.
  const folders: Readonly<Record<string, string>> = {
    "/modules/moonport/": path.join(packageRoot, "dist", "src"),
    "/modules/msgpackr/": path.join(packageRoot, "node_modules", "msgpackr"),
    "/script/": path.join(packageRoot, "dist", "examples", "auction-house", "page"),
    "/": page,
  };
  const server = http.createServer((request, response) => {
    const [pathname] = (request.url ?? "").split("?");
    if (pathname === "/node.json") return send(response, "application/json", JSON.stringify({ url: node }));
    const file = fileOf(folders, pathname === "/" ? "/index.html" : pathname);
    const type = file && TYPES[path.extname(file)];
    if (file === undefined || type === undefined) return notFound(response);
    fs.readFile(file, (error, bytes) => (error ? notFound(response) : send(response, type, bytes)));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, HOST, resolve);
  });
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Plain names only: nothing in a path leads out of its folder. */
const PLAIN_PATH = /^(?:\/[\w-]+(?:\.[\w-]+)*)+$/;

function fileOf(folders: Readonly<Record<string, string>>, pathname = ""): string | undefined {
  if (!PLAIN_PATH.test(pathname)) return undefined;
  const found = Object.entries(folders).find(([prefix]) => pathname.startsWith(prefix));
  return found && path.join(found[1], pathname.slice(found[0].length));
}

function notFound(response: http.ServerResponse): void {
  response.writeHead(404, { "content-type": "text/plain" }).end("not found");
}

function send(response: http.ServerResponse, type: string, body: string | Buffer): void {
  response.writeHead(200, { "content-type": type, "cache-control": "no-cache" }).end(body);
}
