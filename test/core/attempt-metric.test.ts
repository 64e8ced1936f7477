import { expect, test } from "vitest";
import { type MetricResult, resultOf } from "../../src/core/attempt-metric.ts";
import type { Exchange } from "../../src/core/retry/classify.ts";

test.each<[Exchange, MetricResult]>([
  [{ kind: "response", status: 200 }, "2xx"],
  [{ kind: "response", status: 204 }, "2xx"],
  [{ kind: "response", status: 302 }, "3xx"],
  [{ kind: "response", status: 404 }, "4xx"],
  [{ kind: "response", status: 428 }, "4xx"],
  [{ kind: "response", status: 429 }, "429"],
  [{ kind: "response", status: 503 }, "5xx"],
  [{ kind: "response", status: 101 }, "other"],
  [{ kind: "response", status: 999 }, "other"],
  [{ kind: "timeout" }, "timeout"],
  [{ kind: "connection_lost" }, "network"],
  [{ kind: "refused" }, "network"],
  [{ kind: "dns" }, "network"],
  [{ kind: "network" }, "network"],
  [{ kind: "tls" }, "network"],
  [{ kind: "timeout", status: 522 }, "timeout"],
  [{ kind: "dns", status: 530 }, "network"],
  [{ kind: "challenged", status: 403 }, "4xx"],
  [{ kind: "challenged", status: 429 }, "429"],
  [{ kind: "challenged" }, "network"],
])("%j counts as %s", (exchange, result) => {
  expect(resultOf(exchange)).toBe(result);
});
