/**
 * The auction house: a node with the app in this folder, and a server for its page. Run it with `npm run example:auction-house`.
 *
 * The page's server knows nothing of lots and bids. The page speaks to the node itself, over one WebSocket; this program opens
 * the node, offers the lots of the sale and hands out files.
 */
import path from "node:path";
import { parseArgs } from "node:util";
import { Moonport } from "moonport";
import { packageRoot } from "../../cli/package-root.js";
import { servePage } from "./page-server.js";
import { SALE } from "./sale.js";

const APP = path.join(packageRoot, "examples", "auction-house");

const { values: flags } = parseArgs({
  options: {
    data: { type: "string", default: path.join(APP, ".moonport") },
    port: { type: "string", default: "8080" },
    "node-port": { type: "string", default: "7070" },
  },
});

try {
  await openHouse();
} catch (error) {
  console.error(`The auction house cannot open: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}

async function openHouse(): Promise<void> {
  const moonport = await Moonport.open({
    dataDir: flags.data,
    dir: APP,
    listen: { port: Number(flags["node-port"]) },
  });
  // One request for the whole sale. Lots that are running stay as they are; those that are over are offered again.
  await moonport.unit("lots", { body: SALE });

  const node = moonport.url ?? "";
  const page = await servePage({ port: Number(flags.port), page: path.join(APP, "page"), node });
  console.log(`The auction house is open at ${page.url}\nIts node answers at ${node}, its data is in ${flags.data}`);

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, async () => {
      page.stop();
      await moonport.close();
    });
  }
}
