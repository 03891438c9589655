/**
 * How far long work has come, on stderr: a bar on a terminal, redrawn in place; elsewhere a line now and then.
 *
 * Whoever prints anything else takes the bar away before.
 */

const REDRAW_MS = 100;
const LINE_MS = 10_000;
const BAR_SIGNS_MAX = 40;
const CLEAR_LINE = "\r\u001b[K";

export interface ProgressStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export class ProgressBar {
  readonly #stream: ProgressStream;
  readonly #nowMs: () => number;
  #toldMs: number;
  #isDrawn = false;

  constructor(stream: ProgressStream, nowMs: () => number) {
    this.#stream = stream;
    this.#nowMs = nowMs;
    // On a terminal the first is drawn at once; a log hears nothing of what takes no time.
    this.#toldMs = stream.isTTY === true ? Number.NEGATIVE_INFINITY : nowMs();
  }

  /** @param share from 0 to 1; absent where nobody knows */
  show(share: number | undefined, text: string): void {
    const nowMs = this.#nowMs();
    const isTerminal = this.#stream.isTTY === true;
    if (nowMs - this.#toldMs < (isTerminal ? REDRAW_MS : LINE_MS)) return;
    this.#toldMs = nowMs;
    if (!isTerminal) {
      this.#stream.write(`${share === undefined ? "" : `${percent(share)}  `}${text}\n`);
      return;
    }
    this.#stream.write(`${CLEAR_LINE}${barText(share, text, this.#stream.columns ?? 80)}`);
    this.#isDrawn = true;
  }

  clear(): void {
    if (this.#isDrawn) this.#stream.write(CLEAR_LINE);
    this.#isDrawn = false;
  }
}

/** One line, shorter than the terminal is wide: a full one would begin the next. */
export function barText(share: number | undefined, text: string, columns: number): string {
  const room = Math.max(0, columns - 1);
  if (share === undefined) return text.slice(0, room);
  const signs = Math.min(BAR_SIGNS_MAX, room - text.length - " 100 %  [] ".length);
  const bar = signs < 1 ? "" : `[${"#".repeat(Math.round(share * signs)).padEnd(signs, ".")}] `;
  return `${bar}${percent(share)}  ${text}`.slice(0, room);
}

function percent(share: number): string {
  return `${String(Math.floor(share * 100)).padStart(3)} %`;
}
