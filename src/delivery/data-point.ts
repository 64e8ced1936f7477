/**
 * One data point for each attempt, where Analytics Engine is bound. Its columns have no names of their own:
 * what they mean is documented in the README, and new ones go to the end. Ids and figures; nothing of the
 * payload, no URL, no secret.
 */
import { deliveryId } from "../id.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Finished } from "./run-lease.ts";

/**
 * Answers why the point was not taken; undefined when it was, or when nobody wants it. Analytics Engine
 * takes so many of an invocation and throws at the next: no delivery may hang on that.
 * https://developers.cloudflare.com/analytics/analytics-engine/limits/
 */
export function writeDataPoint(
  { attempts }: Pick<Services, "attempts">,
  finished: Finished,
): string | undefined {
  try {
    attempts?.writeDataPoint(dataPointOf(finished));
    return undefined;
  } catch (error) {
    return faultOf(error);
  }
}

function dataPointOf({ attempt, outcome, metric }: Finished): AnalyticsEngineDataPoint {
  const { event, destination } = attempt.work;
  const { exchange } = attempt;
  return {
    indexes: [destination.id],
    blobs: [
      destination.tenant,
      event.type,
      metric.result,
      outcome.row.state,
      outcome.row.reason,
      deliveryId(event.id, destination.id),
    ],
    doubles: [
      metric.attempt,
      exchange.kind === "response" ? exchange.status : 0,
      metric.tookMs,
      metric.lateMs,
    ],
  };
}
