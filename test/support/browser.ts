/**
 * A real Chromium for tests, and pages for it.
 *
 * It is Debian's package, or what CHROMIUM names. Without one the tests that need it are skipped, and say so; where CI is set
 * they fail.
 */
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { build, type Rolldown } from "vite";
import { packageRoot } from "../../cli/package-root.js";

const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";
const HAS_BROWSER = fs.existsSync(EXECUTABLE);

/** Whether to skip; the name of the group says why. */
export const SKIPS_BROWSER = !HAS_BROWSER && process.env.CI === undefined;
export const BROWSER_NOTE = SKIPS_BROWSER
  ? ` (SKIPPED: no ${EXECUTABLE}. apt-get install -y --no-install-recommends chromium, or set CHROMIUM)`
  : "";
if (SKIPS_BROWSER) process.stderr.write(`browser tests are skipped${BROWSER_NOTE}\n`);

/** Chromium's own talk with its maker's hosts is switched off: tests reach nothing but this machine. */
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export class TestBrowser {
  readonly #context: BrowserContext;
  readonly #profile: string;
  readonly #errors: string[] = [];

  private constructor(context: BrowserContext, profile: string) {
    this.#context = context;
    this.#profile = profile;
  }

  static async start(): Promise<TestBrowser> {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-chromium-"));
    const options = { executablePath: EXECUTABLE, headless: true, args: ARGUMENTS };
    return new TestBrowser(await chromium.launchPersistentContext(profile, options), profile);
  }

  /** A new tab. What its scripts throw and nobody catches is kept in {@link errors}. */
  async open(url: string): Promise<Page> {
    const page = await this.#context.newPage();
    page.on("pageerror", (error) => void this.#errors.push(String(error)));
    await page.goto(url);
    return page;
  }

  get errors(): readonly string[] {
    return this.#errors;
  }

  async stop(): Promise<void> {
    await this.#context.close();
    fs.rmSync(this.#profile, { recursive: true, force: true });
  }
}

export interface Bundle {
  readonly code: string;
  /** Every file that went into it. */
  readonly modules: readonly string[];
}

/** Bundles a script as an app that has installed the built package would for browsers. */
export async function bundleForBrowsers(script: string): Promise<Bundle> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-page-"));
  try {
    fs.mkdirSync(path.join(folder, "node_modules"));
    fs.symlinkSync(packageRoot, path.join(folder, "node_modules", "moonport"));
    fs.writeFileSync(path.join(folder, "page.js"), script);
    const built = await build({
      root: folder,
      configFile: false,
      logLevel: "error",
      build: { write: false, rollupOptions: { input: path.join(folder, "page.js") } },
    });
    const { output } = (Array.isArray(built) ? built[0] : built) as Rolldown.RolldownOutput;
    const [chunk, ...others] = output;
    if (others.length > 0)
      throw new Error(`the bundle is more than one file: ${others.map(({ fileName }) => fileName)}`);
    return { code: chunk.code, modules: chunk.moduleIds };
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

export interface PageServer {
  readonly url: string;
  stop(): void;
}

/** One page with one script. It allows itself no `eval`: neither do careful pages. */
export async function servePage(script: string): Promise<PageServer> {
  const server = http.createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html; charset=utf-8");
    response.setHeader("content-security-policy", "script-src 'self'");
    response.end(
      isScript ? script : '<!doctype html><title>page</title><script type="module" src="/page.js"></script>',
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
