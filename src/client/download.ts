/** A file that comes over HTTP: its head, then its bytes as fast as they are read. */
import http from "node:http";
import { MoonportError } from "../errors.js";
import type { Timer, World } from "../world/world.js";

export interface Download {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly parts: AsyncIterable<Uint8Array>;
}

/**
 * @param timeoutMs until the head is there, and between any two parts
 * @throws MoonportError `node_unreachable`, while it is read too
 */
export function download(
  world: Pick<World, "timers">,
  options: http.RequestOptions,
  timeoutMs: number,
  unreachable: (what: string, cause?: unknown) => MoonportError,
): Promise<Download> {
  return new Promise((resolve, reject) => {
    const request = http.request(options);
    const late = (): void => void request.destroy(unreachable(`said nothing for ${Math.round(timeoutMs)} ms`));
    const timer = world.timers.after(timeoutMs, late);
    request.on("error", (cause) => {
      timer.cancel();
      reject(cause instanceof MoonportError ? cause : unreachable(`does not answer (${cause.message})`, cause));
    });
    request.on("response", (response) => {
      timer.cancel();
      const parts = partsOf(response, () => world.timers.after(timeoutMs, late), unreachable);
      resolve({ status: response.statusCode ?? 0, headers: response.headers, parts });
    });
    request.end();
  });
}

async function* partsOf(
  response: http.IncomingMessage,
  watch: () => Timer,
  unreachable: (what: string, cause?: unknown) => MoonportError,
): AsyncGenerator<Uint8Array> {
  let timer = watch();
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      timer.cancel();
      yield part;
      timer = watch();
    }
  } catch (cause) {
    throw cause instanceof MoonportError ? cause : unreachable("broke off its answer", cause);
  } finally {
    timer.cancel();
    response.destroy();
  }
}
