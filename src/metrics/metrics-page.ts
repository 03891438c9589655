/**
 * The page of metrics, in Prometheus' text format: a node's own, as they stand when the page is asked for, and those of its
 * process.
 */
import { Gauge, type MetricObjectWithValues, type MetricType, type MetricValue, Registry } from "prom-client";
import type { DoorGauges, MeasuredNode } from "./measured.js";
import { processMetrics } from "./process-metrics.js";
import { READINGS, type Sample, taken } from "./readings.js";
import { METRICS, type MetricEntry, type MetricName } from "./table.js";

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

export async function metricsPage(node: MeasuredNode, doors: DoorGauges): Promise<string> {
  const own = new Registry();
  const now = taken(node, doors);
  for (const [name, read] of Object.entries(READINGS)) {
    own.registerMetric(new Reading(name, METRICS[name as MetricName], read(now)));
  }
  return Registry.merge([own, processMetrics()]).metrics();
}

/** A metric that was counted elsewhere. A registry asks nothing of it but `get`. */
class Reading extends Gauge {
  readonly #entry: MetricEntry;
  readonly #samples: readonly Sample[];

  constructor(name: string, entry: MetricEntry, samples: readonly Sample[]) {
    super({ name, help: entry.meaning, registers: [] });
    this.#entry = entry;
    this.#samples = samples;
  }

  override async get(): Promise<MetricObjectWithValues<MetricValue<string>>> {
    const { name, ...rest } = await super.get();
    const values = this.#samples.map(({ suffix, labels = {}, value }) => ({
      value,
      labels,
      ...(suffix !== undefined && { metricName: `${name}${suffix}` }),
    }));
    // The library declares numbers where it writes words.
    return { ...rest, name, type: this.#entry.kind as unknown as MetricType, values };
  }
}
