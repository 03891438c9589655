/** Runs the guestbook of this folder until it is told to stop. */
import { startService } from "./service.js";

const service = await startService({ dir: ".", dataDir: ".moonport", port: Number(process.env.PORT ?? 3000) });
console.log(`a guestbook at ${service.url}`);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void service.close());
