/** What is shown of a replay. */
import type { z } from "@hono/zod-openapi";
import { isoTime } from "../iso-time.ts";
import type { Replay } from "../store/replays.ts";
import type { replaySchema } from "./replay-schema.ts";

export function replayView(replay: Replay): z.infer<typeof replaySchema> {
  return {
    id: replay.id,
    tenant: replay.tenant,
    destination_id: replay.destinationId,
    include: replay.include,
    event_types: replay.eventTypes && [...replay.eventTypes],
    since: isoTime(replay.since),
    until: isoTime(replay.until),
    rate_per_minute: replay.ratePerMinute,
    state: replay.state,
    reason: replay.reason,
    total: replay.total,
    moved: replay.moved,
    delivered: replay.delivered,
    failed: replay.failed,
    pace_per_minute: Math.round(replay.pace * 10) / 10,
    created_at: isoTime(replay.createdAt),
    updated_at: isoTime(replay.updatedAt),
    ended_at: isoTime(replay.endedAt),
  };
}
