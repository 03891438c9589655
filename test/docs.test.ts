/** Pages that are made from tables in the code stay what the tables say. MOONPORT_WRITE_DOCS=1 writes them. */
import fs from "node:fs";
import { expect, it } from "vitest";
import { CLASS_ERROR, ERROR_CODES, type ErrorCodeEntry } from "../src/errors.js";
import { WAIT_BOUNDS_MS } from "../src/metrics/histogram.js";
import { METRICS, type MetricEntry } from "../src/metrics/table.js";
import { SETTINGS, type SettingEntry } from "../src/settings/settings.js";
import { VERSION } from "../src/version.js";
import { CLOSE_CODES } from "../src/wire/frames.js";

const NOTE = "<!-- Made from the table in the code. Change that, then run: npm run docs -->";

function isCurrent(file: string, text: string): void {
  if (process.env.MOONPORT_WRITE_DOCS === "1") fs.writeFileSync(file, text);
  expect(fs.readFileSync(file, "utf8"), `${file} is not current: run npm run docs`).toBe(text);
}

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |\n`;
  return line(head) + line(head.map(() => "---")) + rows.map(line).join("");
}

it("docs/errors.md lists every code with its HTTP status and exit code", () => {
  const groups: Record<ErrorCodeEntry["group"], string> = {
    refuse: "The request is wrong: sending it again changes nothing",
    class: "The class's own doing",
    retry: "Try again: nothing happened, or the call id makes a repeat safe",
    unknown: "The outcome is unknown",
    operator: "Storage or configuration needs an operator",
  };
  const sections = Object.entries(groups).map(([group, title]) => {
    const entries = Object.entries(ERROR_CODES as Record<string, ErrorCodeEntry>).filter(
      ([, one]) => one.group === group,
    );
    const rows = entries.map(([code, one]) => [
      `\`${code}\``,
      one.status,
      one.exit,
      one.retryable ? "yes" : "no",
      one.meaning,
    ]);
    return `## ${title}\n\n${table(["code", "HTTP", "exit", "retryable", "meaning"], rows)}`;
  });
  const intro = `# Errors

${NOTE}

Every door gives the same errors: over HTTP as [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem documents, from the
command line with an exit code, in TypeScript as \`MoonportError\`. An error has a \`code\`, a message, often a \`hint\`, the object
and the call id it concerns, and says whether it is \`retryable\`. A WebSocket gives them in frames; one that is closed has
a [close code](websocket.md#close-codes).

An error that a class throws itself, \`error { code = "too_low", message = ... }\`, reaches the caller with that code, its other
fields as details, HTTP status ${CLASS_ERROR.status} and exit code ${CLASS_ERROR.exit}. It may use a
code of the tables below: the field \`source\` says \`class\` or \`moonport\`, and what a class throws is never retryable.

`;
  isCurrent("docs/errors.md", intro + sections.join("\n"));
});

it("docs/settings.md lists every setting with its default and bounds", () => {
  const rows = Object.entries(SETTINGS as Record<string, SettingEntry>).map(([name, one]) => [
    `\`${name}\``,
    one.default,
    `${one.min} to ${one.max}`,
    one.unit,
    one.scope,
    one.meaning,
  ]);
  const intro = `# Settings

${NOTE}

Each is set by an environment variable of its name, or by \`--set NAME=VALUE\` on the command line, which wins. A name that is
not in this table is refused with the nearest right one; a value out of bounds is refused too. A *fleet* setting must be the
same on every node of a fleet, a *node* setting may differ.

`;
  isCurrent("docs/settings.md", intro + table(["setting", "default", "bounds", "unit", "scope", "meaning"], rows));
});

it("docs/metrics.md lists every metric with its kind and labels", () => {
  const rows = Object.entries(METRICS as Record<string, MetricEntry>).map(([name, one]) => [
    `\`${name}\``,
    one.kind,
    one.labels.map((label) => `\`${label}\``).join(", "),
    one.meaning,
  ]);
  const bounds = WAIT_BOUNDS_MS.map((ms) => String(ms / 1_000)).join(", ");
  const intro = `# Metrics

${NOTE}

A node that answers HTTP shows its metrics at \`GET /metrics\`, in the text format of
[Prometheus](https://prometheus.io/docs/instrumenting/exposition_formats/). Without auth everybody on the machine may read them;
with auth it takes a token with the right \`admin\` ([auth.md](auth.md)), as for the other operator's routes:

\`\`\`yaml
scrape_configs:
  - job_name: moonport
    authorization:
      credentials_file: /etc/prometheus/moonport.token
    static_configs:
      - targets: ["10.0.0.7:7070"]
\`\`\`

Reading the page asks nothing of the bucket. Between two readings the node counts in plain numbers, so it makes no difference to
calls whether anybody looks. Labels take only values that the app's files, the error table and the code name: no caller can make
up a series. An empty label, which is the same as none, says that a call named nothing that there is. A node that is alone shows
nothing of what only nodes of a fleet have: forwarded calls, claims, takeovers, handovers, its journal, links.

`;
  const after = `
Histograms have these bounds, in seconds: ${bounds}.

Beside these stand the usual ones of a Node.js process, with the names of
[prom-client](https://github.com/siimon/prom-client#default-metrics): \`process_cpu_seconds_total\`,
\`process_resident_memory_bytes\`, \`process_open_fds\`, \`nodejs_eventloop_lag_seconds\` with its percentiles,
\`nodejs_heap_size_used_bytes\`, \`nodejs_gc_duration_seconds\` and others. They are measured from the first reading on.

## Worth asking

| question | asked of Prometheus |
| --- | --- |
| Do writes land? | \`moonport_writes_land == 0\` |
| What share of calls fails, and how? | \`sum by (outcome) (rate(moonport_calls_total{outcome!="ok"}[5m])) / ignoring(outcome) group_left sum(rate(moonport_calls_total[5m]))\` |
| How long do calls take? | \`histogram_quantile(0.99, sum by (class, le) (rate(moonport_call_duration_seconds_bucket[5m])))\` |
| How much of it is the bucket? | \`histogram_quantile(0.99, sum by (le) (rate(moonport_gate_wait_seconds_bucket[5m])))\` |
| How long do calls wait for their turn? | \`histogram_quantile(0.99, sum by (le) (rate(moonport_mailbox_wait_seconds_bucket[5m])))\` |
| How many replies share a flight? | \`rate(moonport_gate_wait_seconds_count[5m]) / on(instance) sum by (instance) (rate(moonport_flights_landed_total[5m]))\` |
| What does the bucket cost, dollars a month at S3's list prices? | \`sum(rate(moonport_bucket_requests_total{kind!="get",kind!="delete",kind!="abort_upload"}[1h])) * 2628000 * 0.005 / 1000 + sum(rate(moonport_bucket_requests_total{kind="get"}[1h])) * 2628000 * 0.0004 / 1000\` |
| What share of a fleet's calls goes on to another node? | \`sum(rate(moonport_forwarded_calls_total[5m])) / (sum(rate(moonport_calls_total{class!=""}[5m])))\` |
| Is a takeover under way? | \`moonport_takeovers_begun_total - moonport_takeovers_ended_total > 0\` |
| How long does a journal's disk take? | \`histogram_quantile(0.99, sum by (instance, le) (rate(moonport_journal_sync_seconds_bucket[5m])))\` |
| Does the event loop keep up? | \`nodejs_eventloop_lag_p99_seconds\` |

## What an idle node costs

On an S3 bucket each request is billed. A node that nobody calls writes a probe every HEALTH_INTERVAL_MS (5 s) and looks once an
hour for uploads that were left behind: 525,600 and 730 requests a month, 2.63 dollars at S3's list price of 0.005 dollars per
1,000 (Standard, us-east-1). It is inversely proportional to HEALTH_INTERVAL_MS: 1.32 dollars at 10 s, 0.44 at 30 s; keep HEALTH_LANDED_MS at three
times as much or more, so that one late probe is no alarm. While flights land there are no probes. Looking for what is older than
retention ([history.md](history.md)) adds a listing of all keys of objects every 21 hours, by one node of a fleet: 35 LISTs a month
for each thousand of them, a dollar for five million. \`HEALTH_INTERVAL_MS=0\` leaves a
third of a cent, and a node that never says that writes do not land. A smaller bill for a busy node is what BUCKET_FLUSH_MS is for.
`;
  const list = table(["metric", "kind", "labels", "meaning"], rows);
  isCurrent("docs/metrics.md", intro + list + after);
});

it("docs/websocket.md has a row for every close code", () => {
  const page = fs.readFileSync("docs/websocket.md", "utf8");
  for (const [name, code] of Object.entries(CLOSE_CODES)) expect(page).toContain(`| ${code} | \`${name}\` |`);
});

it("the version in the code is the package's", () => {
  expect(VERSION).toBe(JSON.parse(fs.readFileSync("package.json", "utf8")).version);
});
