/** `GET /metrics`: the node's metrics for Prometheus, to whoever may use the operator's routes. Documented in docs/metrics.md. */
import type { DoorGauges, MeasuredNode } from "../metrics/measured.js";
import { METRICS_TYPE, metricsPage } from "../metrics/metrics-page.js";
import type { HttpHandler } from "./http-handler.js";
import { allowMethods, checkParameters } from "./request-line.js";

export interface MetricsContext {
  readonly node: MeasuredNode;
  /** Asked at each reading. */
  doors(): DoorGauges;
}

export function metricsHandler({ node, doors }: MetricsContext): HttpHandler {
  return {
    operation(line) {
      if (line.segments.length !== 1 || line.segments[0] !== "metrics") return undefined;
      allowMethods(line, ["GET"]);
      checkParameters(line, []);
      return {
        check: (principal) => principal.check({ right: "admin" }),
        // How a node goes down is worth seeing too.
        whileStopping: true,
        answer: async () => ({
          kind: "whole",
          status: 200,
          headers: { "content-type": METRICS_TYPE },
          body: await metricsPage(node, doors()),
        }),
      };
    },
  };
}
