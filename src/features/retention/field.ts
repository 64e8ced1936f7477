/** The field `retention_days`: for how long events are stored if that is less than the deployment's time. */

import type { Config } from "../../config.ts";
import { errorIf, type FieldError } from "../../core/result.ts";
import { DAY_MS } from "../../core/retention.ts";
import { wholeNumberOf } from "../parameters.ts";

export const retentionDaysField = wholeNumberOf("a whole number of days, at least 1, or null", 1)
  .nullable()
  .openapi({
    example: 7,
    description:
      "For how many days its events are kept; null: as long as the deployment keeps events, which is the most. The " +
      "shortest time that applies to an event counts.",
  });

/** The error of more days than the deployment stores events. */
export function retentionErrors(
  days: number | null | undefined,
  { retentionMs }: Pick<Config, "retentionMs">,
): FieldError[] {
  const most = retentionMs / DAY_MS;
  const expected = `at most ${most}, the RETENTION_DAYS of the deployment`;
  return errorIf((days ?? 0) > most, "retention_days", `is ${days}`, expected);
}
