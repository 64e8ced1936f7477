/** The tools that read: they find out why an event has not arrived. */
import { z } from "@hono/zod-openapi";
import { parseExactly } from "../../core/json-value.ts";
import { mapOk, ok } from "../../core/result.ts";
import { resolveRetry } from "../../core/retry/policy.ts";
import { retryPreviewOf } from "../../core/retry/preview.ts";
import { windows } from "../../core/rollups.ts";
import { getAction } from "../../features/approvals/service.ts";
import { auditQuery } from "../../features/audit/schema.ts";
import { entryNumber, getAuditEntries } from "../../features/audit/service.ts";
import { getAttempt } from "../../features/deliveries/attempts.ts";
import { repairQuery } from "../../features/deliveries/schema.ts";
import { getDeliveries, getDeliveryInFull, placesOf } from "../../features/deliveries/service.ts";
import { destinationFields } from "../../features/destinations/fields.ts";
import { getDestinationHealth } from "../../features/destinations/health.ts";
import { previewDestination } from "../../features/destinations/preview.ts";
import { destinationDraft, destinationViewFor } from "../../features/destinations/schema.ts";
import { getDestination, getDestinations } from "../../features/destinations/service.ts";
import { getEvent } from "../../features/events/service.ts";
import { cursorAfter, cursorParam, pageFrom, strict, tenantName } from "../../features/parameters.ts";
import { getReplay, replayView } from "../../features/replays/service.ts";
import { searchQuery } from "../../features/search/schema.ts";
import { search } from "../../features/search/service.ts";
import { getFleet, getStats } from "../../features/stats/service.ts";
import { idPatterns } from "../../ids.ts";
import { statusText, withHeld } from "../../pages/ui/status-text.ts";
import { gateSettingsOf, retryPolicyOf, statusOf } from "../../store/destination.ts";
import { explanationOf } from "./explain.ts";
import {
  actionIdField,
  attemptTimeField,
  deliveryIdField,
  destinationIdField,
  eventIdField,
  linkTo,
  nameShown,
  pageLimitField,
  replayIdField,
} from "./fields.ts";
import { actionShown, beginning, outside, readingTool, shortened, type Tool } from "./tool.ts";

const tenantField = tenantName.optional().describe("Only this tenant.");
const { action: _, limit: __, ...deliveryConditions } = repairQuery.shape;

const eventDeliveriesShown = 10;

type Row = Readonly<{ log: unknown; id: string }>;

/** A delivery in a list: without its attempts. */
function deliveryRow<D extends Row>({ log: _, ...delivery }: D) {
  return delivery;
}

/** Attempts that a preview of a policy shows. */
const ATTEMPTS_PREVIEWED = 30;

/** Destinations that statistics name. */
const DESTINATIONS_SHOWN = 10;

export const readingTools: readonly Tool[] = [
  readingTool({
    name: "explain_delivery",
    title: "Explain a delivery",
    description:
      "Why a delivery has or has not arrived: its state and reason, what that means and what to do, when it " +
      "continues, its latest attempts, and the state of its destination.",
    permission: getDeliveryInFull.permission,
    input: strict({ delivery_id: deliveryIdField }),
    run: (call, { delivery_id }) => explanationOf(call, delivery_id),
  }),

  readingTool({
    name: "search",
    title: "Search",
    description:
      "Finds events, deliveries, destinations and replays by an id, by words of an event's type, tags or content, or by " +
      "conditions. Shows where each event goes and its progress.",
    permission: search.permission,
    input: strict({ q: searchQuery.shape.q, limit: pageLimitField, cursor: searchQuery.shape.cursor }),
    run: async (call, query) => {
      return mapOk(await search(call, query), ({ data, ...page }) => ({
        results: data.map(({ event: _, delivery: __, name, excerpt, deliveries, ...result }) => ({
          ...result,
          ...(deliveries && { deliveries: deliveries.map(({ destination: _, ...delivery }) => delivery) }),
          ...((name ?? excerpt) !== undefined &&
            outside({ ...(name && { name: beginning(name, 200) }), ...(excerpt && { excerpt }) })),
        })),
        ...page,
      }));
    },
  }),

  readingTool({
    name: "list_failing_destinations",
    title: "List failing destinations",
    description:
      "Destinations that need attention now: paused by failures, behind an open circuit, held, failing, in a retry storm, " +
      "or with keys that dead deliveries hold, those with the largest backlog first. Examines up to a hundred destinations, the active ones.",
    permission: getFleet.permission,
    input: strict({ tenant: tenantField, limit: pageLimitField }),
    run: async (call, { tenant, limit }) => {
      const now = call.services.now();
      const found = await getFleet(call, { tenant, query: { windows: ["15m"], series: false } });
      if (found.kind !== "ok") return found;
      const { seen, total } = found.value;
      const failing = seen
        .map(({ row, depth, figures }) => {
          const { maxConcurrency } = gateSettingsOf(row);
          const own = statusText({ ...row, maxConcurrency, view: figures?.view }, now);
          return { row, depth, text: withHeld(own, depth.held) };
        })
        .filter(({ text: { tone } }) => tone === "bad" || tone === "warn")
        .toSorted((a, b) => b.depth.waiting - a.depth.waiting);
      const destinations = failing.slice(0, limit).map(({ row, depth, text }) => ({
        id: row.id,
        tenant: row.tenant,
        state: text.label,
        ...(text.reason && { reason: text.reason }),
        ...(text.until && { until: text.until }),
        ...depth,
        page: linkTo(call, "destinations", row.id),
        ...nameShown(row),
      }));
      return ok({
        destinations,
        failing: failing.length,
        looked_at: seen.length,
        destinations_in_all: total,
      });
    },
  }),

  readingTool({
    name: "get_event",
    title: "Show an event",
    description: "An event with its data and its deliveries: where each goes, its state and its reason.",
    permission: getEvent.permission,
    input: strict({ event_id: eventIdField }),
    run: async (call, { event_id: id }) => {
      const found = await getEvent(call, { id, parse: parseExactly });
      return mapOk(found, ({ data, data_base64, headers, deliveries, ...event }) => ({
        ...event,
        deliveries: deliveries.slice(0, eventDeliveriesShown).map(deliveryRow),
        delivery_count: deliveries.length,
        page: linkTo(call, "events", id),
        ...outside({
          ...(data !== undefined && { data: shortened(data) }),
          ...(data_base64 !== undefined && { data_base64: beginning(data_base64) }),
          ...(headers && { headers }),
        }),
      }));
    },
  }),

  readingTool({
    name: "list_deliveries",
    title: "List deliveries",
    description:
      "Deliveries by destination, state, reason, type, tag, status and time, without their attempts. A page may be short, " +
      "or empty, and still have a next_cursor.",
    permission: getDeliveries.permission,
    input: strict({ ...deliveryConditions, limit: pageLimitField }),
    run: async (call, query) =>
      mapOk(await getDeliveries(call, query), ({ deliveries, next }) => ({
        deliveries: deliveries.map(deliveryRow),
        next_cursor: cursorAfter(next && placesOf(next)),
      })),
  }),

  readingTool({
    name: "get_attempt",
    title: "Show an attempt",
    description: "One attempt of a delivery: the request that was sent, and what the receiver answered.",
    permission: getAttempt.permission,
    input: strict({ delivery_id: deliveryIdField, at: attemptTimeField }),
    run: async (call, { delivery_id: delivery, at }) => {
      const cut = <B extends Readonly<{ body: string | null }>>(message: B | null) =>
        message && { ...message, body: message.body && beginning(message.body) };
      return mapOk(await getAttempt(call, { delivery, at }), ({ request, response, note, ...attempt }) => ({
        ...attempt,
        ...outside({ note, request: cut(request), response: cut(response) }),
      }));
    },
  }),

  readingTool({
    name: "list_destinations",
    title: "List destinations",
    description: "Destinations in order of their ids, with name, URL and status.",
    permission: getDestinations.permission,
    input: strict({
      tenant: tenantField,
      limit: pageLimitField,
      cursor: cursorParam(z.string().regex(idPatterns.destination)),
    }),
    run: async (call, { tenant, limit, cursor: after }) => {
      const listed = await getDestinations(call, { tenant, after, limit: limit + 1 });
      if (listed.kind !== "ok") return listed;
      const { data, next_cursor } = pageFrom(listed.value, limit, ({ id }) => id);
      const destinations = data.map((row) => ({
        id: row.id,
        tenant: row.tenant,
        status: statusOf(row),
        ...(row.statusReason && { status_reason: row.statusReason }),
        ...nameShown(row),
      }));
      return ok({ destinations, next_cursor });
    },
  }),

  readingTool({
    name: "get_destination",
    title: "Show a destination",
    description:
      "The settings of a destination: which events it takes, limits, retry policy, signature. Never its secret.",
    permission: getDestination.permission,
    input: strict({ destination_id: destinationIdField }),
    run: async (call, { destination_id: id }) => {
      return mapOk(await getDestination(call, id), (row) => {
        const shown = destinationViewFor(call.principal, row);
        const { url, description, uid, metadata, headers, filter, ...view } = shown;
        const { auth, signature_forms, binding, path, ...settings } = view;
        const names = { url, description, uid, metadata, binding, path };
        return {
          ...settings,
          page: linkTo(call, "destinations", id),
          ...outside({ ...names, headers, filter, auth, signature_forms }),
        };
      });
    },
  }),

  readingTool({
    name: "destination_health",
    title: "Show a destination's health",
    description:
      "What a destination does now: circuit, hold, concurrency and rate, why it would not send and until when, how many " +
      "deliveries wait for which reason, and its latest changes of state.",
    permission: getDestinationHealth.permission,
    input: strict({ destination_id: destinationIdField }),
    run: async (call, { destination_id: id }) =>
      mapOk(await getDestinationHealth(call, id), (health) => ({
        ...health,
        page: linkTo(call, "destinations", id),
      })),
  }),

  readingTool({
    name: "preview_filter",
    title: "Preview a filter",
    description:
      "Which of the tenant's latest events a destination takes with these event_types, channels and filter, or with its " +
      "own where they are left out, and why not the others. Nothing is changed.",
    permission: previewDestination.permission,
    input: strict({ destination_id: destinationIdField, limit: pageLimitField, ...destinationDraft.shape }),
    run: async (call, { destination_id: id, limit, ...tried }) =>
      mapOk(await previewDestination(call, { id, ...tried }), ({ events, ...counts }) => ({
        ...counts,
        events: events.slice(0, limit),
      })),
  }),

  readingTool({
    name: "preview_policy",
    title: "Preview a retry policy",
    description:
      "When a delivery that never succeeds would be attempted, in seconds after its first attempt, by a retry policy: the " +
      "one given, or else that of the destination.",
    permission: getDestination.permission,
    input: strict({ destination_id: destinationIdField.optional(), retry: destinationFields.retry.given }),
    run: async (call, { destination_id: id, retry }) => {
      const found = id === undefined || retry ? undefined : await getDestination(call, id);
      if (found && found.kind !== "ok") return found;
      const policy = found ? retryPolicyOf(found.value) : resolveRetry(retry);
      const { attempts, ends } = retryPreviewOf(policy, ATTEMPTS_PREVIEWED);
      const seconds = (ms: number) => Math.round(ms / 100) / 10;
      return ok({
        attempts: attempts.map(({ at, from, to }, i) => ({
          attempt: i + 1,
          at_s: seconds(at),
          ...(from < to && { between_s: [seconds(from), seconds(to)] }),
        })),
        ends: ends === "beyond" ? "more attempts follow" : ends,
      });
    },
  }),

  readingTool({
    name: "stats",
    title: "Show statistics",
    description:
      "Attempts, rates, latency and backlog of a window of time: of a destination, a tenant or everything.",
    permission: getStats.permission,
    input: strict({
      window: z.enum(windows).default("1h").describe("The length of time up to now."),
      destination_id: destinationIdField.optional(),
      tenant: tenantField,
    }),
    run: async (call, { window, destination_id: destination, tenant }) => {
      const found = await getStats(call, { window, destination, tenant });
      return mapOk(found, ({ series: _, destinations, ...stats }) => ({
        ...stats,
        destinations: destinations
          .toSorted((a, b) => b.dead - a.dead || b.waiting - a.waiting)
          .slice(0, DESTINATIONS_SHOWN)
          .map(({ destination_id, circuit, waiting, dead, storm_ratio }) => ({
            ...{ destination_id, circuit, waiting, dead, storm_ratio },
          })),
      }));
    },
  }),

  readingTool({
    name: "get_replay",
    title: "Show a replay",
    description: "The progress of a replay.",
    permission: getReplay.permission,
    input: strict({ replay_id: replayIdField }),
    run: async (call, { replay_id }) => mapOk(await getReplay(call, replay_id), replayView),
  }),

  readingTool({
    name: "get_action",
    title: "Show an action",
    description: "Whether a person has approved the change that you requested, and its result.",
    permission: getAction.permission,
    input: strict({ action_id: actionIdField }),
    run: async (call, { action_id }) =>
      mapOk(await getAction(call, action_id), (action) => actionShown(action, call)),
  }),

  readingTool({
    name: "list_changes",
    title: "List changes",
    description: "The audit trail: who has changed what, the newest first. Needs a key of the scope admin.",
    permission: getAuditEntries.permission,
    input: strict({ ...auditQuery.shape, limit: pageLimitField }),
    run: async (call, { cursor: before, ...query }) => {
      const listed = await getAuditEntries(call, { ...query, before, limit: query.limit + 1 });
      if (listed.kind !== "ok") return listed;
      const { data, next_cursor } = pageFrom(listed.value, query.limit, ({ id }) => entryNumber(id));
      const changes = data.map(({ changes, ...entry }) => ({
        ...entry,
        ...(changes && outside(shortened(changes))),
      }));
      return ok({ changes, next_cursor });
    },
  }),
];
