/**
 * Polling of MCP Events: a client reads the log of its tenant's events by a cursor, which the client stores. The server
 * stores nothing for it.
 */

import { eventFilter } from "../../core/event-filter.ts";
import { checked } from "../../core/field-errors.ts";
import { parseExactly } from "../../core/json-value.ts";
import { cursorIn, cursorText, type EventCursor, occurrenceOf } from "../../core/mcp-events.ts";
import { notYourTenant, tenantFor } from "../../core/principal.ts";
import { type FieldError, invalidFields, missing, ok } from "../../core/result.ts";
import { letsThrough } from "../../core/routing.ts";
import { eventId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { keptOfTenant } from "../../store/content-retention.ts";
import { overBy } from "../../store/delivery-filter.ts";
import { eachBody, type ListedEvent } from "../../store/event-list.ts";
import { type EventLogPage, endOfLog, positionAt, readEventLog } from "../../store/event-log.ts";
import { findEventType } from "../../store/event-types.ts";
import { SKEW_MS } from "../../store/time-ranges.ts";
import { service } from "../service.ts";
import type { PollParams } from "./schema.ts";
import { unknownCursor } from "./service.ts";

/** The pause after which a client that has read everything polls again. */
const NEXT_POLL_MS = 10_000;

/** An event occurrence, as a webhook has it. */
type Occurrence = Readonly<{ eventId: string; name: string; timestamp: string; data: unknown }>;

export type Polled = Readonly<{
  events: readonly Occurrence[];
  cursor: string;
  /** Whether events behind the client's cursor are not there any more, or older than it wants. */
  truncated: boolean;
  hasMore: boolean;
  nextPollMs: number;
}>;

/** The events behind the cursor that fit the arguments, in the order of acceptance; without a cursor, one of now. */
export const pollEvents = service(
  { scope: "read", action: "see_payload" },
  async ({ services, principal }, params: PollParams) => {
    const tenant = tenantFor(principal, undefined);
    if (tenant === undefined) return notYourTenant(principal);
    const { name, arguments: conditions, cursor: given, maxEvents } = params;
    const isFiltered = Object.keys(conditions).length > 0;
    const filter = isFiltered ? checked(eventFilter, conditions) : { data: null };
    if (!("data" in filter)) return invalidFields(filter.map(inArguments));
    const cursor = typeof given === "string" ? cursorIn(given) : undefined;
    if (typeof given === "string" && cursor === undefined) return invalidFields(unknownCursor(given));
    const type = await findEventType(services.db, name);
    if (type === undefined || type.archivedAt !== null) return missing("event", name.slice(0, 100));
    const now = services.now();
    if (cursor === undefined) {
      const start = { at: now, positions: await endOfLog(services) };
      return ok<Polled>({ ...NOTHING, cursor: cursorText(start) });
    }
    const { ms } = await keptOfTenant(services.db, tenant, services.config.retentionMs);
    const floor = now - Math.min(params.maxAgeMs ?? ms, ms);
    const from = cursor.positions ?? (await positionAt(services, cursor.at));
    const query = { tenant, type: name, limit: maxEvents, over: overBy(services) };
    const page = await readEventLog(services, from, query);
    const since = Math.max(floor, cursor.positions ? 0 : cursor.at);
    const wanted = page.found.filter(({ acceptedAt }) => acceptedAt >= since);
    const isTaken = (data: unknown) => !isFiltered || letsThrough(filter.data, data);
    return ok<Polled>({
      events: await occurrencesOf(services, wanted, isTaken),
      cursor: cursorText(after(page, cursor, now)),
      truncated: page.hasGap || cursor.at < floor,
      hasMore: page.hasMore,
      nextPollMs: NEXT_POLL_MS,
    });
  },
);

function inArguments({ field, ...error }: FieldError): FieldError {
  return { field: field ? `arguments.${field}` : "arguments", ...error };
}

const NOTHING = { events: [], truncated: false, hasMore: false, nextPollMs: NEXT_POLL_MS } as const;

/** The clocks of Workers differ a little: the time of a cursor is so much earlier than its position. */
function after({ found, next, hasMore }: EventLogPage, cursor: EventCursor, now: number): EventCursor {
  const at = hasMore ? (found.at(-1)?.acceptedAt ?? cursor.at) : now;
  return { at: Math.max(cursor.at, at - SKEW_MS), positions: next };
}

async function occurrencesOf(
  services: Services,
  events: readonly ListedEvent[],
  isTaken: (data: unknown) => boolean,
): Promise<Occurrence[]> {
  const made = new Map<number, Occurrence>();
  await eachBody(services, events, ({ id, type }, body) => {
    if (body === undefined) return;
    const text = new TextDecoder().decode(occurrenceOf(body, { id: eventId(id), type }));
    const { data } = JSON.parse(new TextDecoder().decode(body)) as { data: unknown };
    if (isTaken(data)) made.set(id, parseExactly(text) as Occurrence);
  });
  return events.flatMap(({ id }) => made.get(id) ?? []);
}
