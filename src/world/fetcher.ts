/** The network as units reach it: one request, one answer. Redirects are answers like any other; whoever asks decides. */
export interface FetchRequest {
  readonly url: string;
  readonly method: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
  /** A longer answer fails with `too_large`, and no more of it is read. */
  readonly bytesMax: number;
}

export interface FetchedResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface Fetcher {
  /** @param signal aborted: nobody waits any more. @throws MoonportError `fetch_failed`, `too_large` */
  fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchedResponse>;
}
