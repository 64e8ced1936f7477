/** The field `retention_days`: for how long events are kept where that is less than the deployment's time. */

import { z } from "@hono/zod-openapi";
import type { Config } from "../../config.ts";
import type { FieldError } from "../../core/result.ts";
import { DAY_MS } from "../../core/retention.ts";

const DAYS_EXPECTED = "expected a whole number of days, at least 1, or null";

export const retentionDaysField = z
  .int({ error: DAYS_EXPECTED })
  .min(1, { error: DAYS_EXPECTED })
  .nullable()
  .openapi({
    example: 7,
    description:
      "For how many days its events are kept; null: as long as the deployment keeps events, which is the most. The " +
      "shortest time that applies to an event counts.",
  });

/** The error of more days than the deployment keeps events. */
export function retentionErrors(
  days: number | null | undefined,
  { retentionMs }: Pick<Config, "retentionMs">,
): FieldError[] {
  const most = retentionMs / DAY_MS;
  if (days === undefined || days === null || days <= most) return [];
  const expected = `at most ${most}, the RETENTION_DAYS of the deployment`;
  return [{ field: "retention_days", fault: `is ${days}`, expected }];
}
