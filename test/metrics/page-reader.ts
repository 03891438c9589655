/** Reads Prometheus' text format as strictly as a scraper would: one family after the other, each named before its samples. */

export interface Family {
  readonly help: string;
  readonly type: string;
  readonly samples: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly value: number;
  }[];
}

export function readPage(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  const helps = new Map<string, string>();
  let open: { readonly name: string; readonly family: Family } | undefined;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const help = /^# HELP (\S+) (.+)$/.exec(line);
    const type = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line);
    if (help !== null) helps.set(help[1] as string, help[2] as string);
    else if (type !== null) {
      const name = type[1] as string;
      if (families.has(name)) throw new Error(`${name} comes twice`);
      open = { name, family: { help: helps.get(name) ?? "", type: type[2] as string, samples: [] } };
      families.set(name, open.family);
    } else open?.family.samples.push(sampleOf(line, open.name));
  }
  return families;
}

function sampleOf(line: string, family: string): Family["samples"][number] {
  const found = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line);
  if (found === null || !(found[1] as string).startsWith(family)) throw new Error(`no sample of ${family}: ${line}`);
  const value = numberOf(found[3] as string);
  const pairs = [...(found[2] ?? "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)/g)];
  return { name: found[1] as string, labels: Object.fromEntries(pairs.map((pair) => [pair[1], pair[2]])), value };
}

/** The process's lags are no numbers when nothing was measured since the last reading. */
function numberOf(text: string): number {
  if (text === "Nan") return Number.NaN;
  const value = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
  if (Number.isNaN(value)) throw new Error(`no number: ${text}`);
  return value;
}
