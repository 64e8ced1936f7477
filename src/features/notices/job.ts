/**
 * Notices to owners of endpoints in trouble: reports come in here, and a step for each endpoint decides
 * (core/notices.ts) and sends.
 *
 * A notice channel is not a destination, so trouble at a channel causes no notice. A destination without a channel
 * costs nothing: every caller already has the row that shows whether it has one. Between claim and result a step sends
 * at most once; an invocation that dies there has used up the hour.
 */

import { type EndpointNow, noticePauseMs, noticeStep } from "../../core/notices.ts";
import { HOUR_MS, MINUTE_MS } from "../../core/rollups.ts";
import { atGate } from "../../gate/client.ts";
import { queuedJob } from "../../jobs/runner.ts";
import { orLogged } from "../../log.ts";
import type { DestinationResult, Services } from "../../services.ts";
import { type Destination, gateSettingsOf, statusOf } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import { noticeChannelOf } from "./channel.ts";
import { endpointLink, sendNotice } from "./send.ts";
import {
  claimNotice,
  findNotice,
  forgetNotice,
  lateNotices,
  markNoticeFailed,
  markNoticeSent,
  type NoticeRow,
  postponeNotice,
  reportClosed,
  reportTrouble,
} from "./sql.ts";

/** How long after a failed call a gate is called again. */
const UNREACHABLE_MS = MINUTE_MS;

export const noticing = queuedJob<NoticeRow & Readonly<{ state: string }>>({
  name: "notice",
  budget: { queries: Number.POSITIVE_INFINITY },
  find: async ({ db }, id) => {
    const row = await findNotice(db, id);
    return row && { ...row, state: "running" };
  },
  step: async ({ services }, row) => {
    const { db, now } = services;
    const destination = await findDestination(db, row.id, undefined);
    const channel = destination && noticeChannelOf(destination);
    if (destination === undefined || channel === undefined)
      return (await forgetNotice(db, row)) ? undefined : now();
    const endpoint = await endpointNow(services, destination);
    const at = now();
    // A step that lost a race is repeated, because the reports meanwhile may change it.
    if (endpoint === undefined)
      return (await postponeNotice(db, row, row, at + UNREACHABLE_MS)) ? at + UNREACHABLE_MS : at;
    const step = noticeStep(channel, row, endpoint, at);
    switch (step.kind) {
      case "forget":
        return (await forgetNotice(db, row)) ? undefined : at;
      case "wait":
        return (await postponeNotice(db, row, step.after, step.until)) ? step.until : at;
      case "send": {
        if (!(await claimNotice(db, row, at, at + HOUR_MS))) return at;
        const { events, openedAt } = step;
        const notice = {
          events,
          endpoint: destination,
          openedAt,
          now: endpoint,
          link: endpointLink(services, row.id),
        };
        const sent = await sendNotice(services, destination, channel, {
          id: `notice_${row.id.slice(4)}_${at}`,
          notice,
        });
        if (sent.kind === "sent") {
          await markNoticeSent(db, row.id, at, step.after);
          return at + HOUR_MS;
        }
        const isRefused = sent.kind === "refused";
        const nextStepAt = at + (isRefused ? noticePauseMs(row.failures) : HOUR_MS);
        const before = isRefused ? row.sentAt : at;
        await markNoticeFailed(db, row.id, at, { fault: sent.fault, before, nextStepAt });
        return nextStepAt;
      }
    }
  },
  findLate: lateNotices,
});

/** Undefined when its gate cannot be reached. */
async function endpointNow(services: Services, row: Destination): Promise<EndpointNow | undefined> {
  if (statusOf(row) === "paused") {
    const { statusReason: reason } = row;
    return reason === null || reason === "manual" ? { kind: "paused" } : { kind: "disabled", reason };
  }
  const view = await atGate(services, row.id, "view", gateSettingsOf(row));
  return view && { kind: view.circuit === "closed" ? "taking" : "open" };
}

/** Circuits of destinations have opened or closed. A failure is logged: the step reads the gate anyway. */
export async function noteCircuits(services: Services, results: readonly DestinationResult[]): Promise<void> {
  for (const { destination, result } of results) {
    const channel = noticeChannelOf(destination);
    if (channel === undefined) continue;
    const { id } = destination;
    const { at, alerts } = result;
    if (alerts.includes("circuit_opened") && channel.on.includes("circuit_open")) {
      const dueAt = at + channel.open_after_minutes * MINUTE_MS;
      await noted(services, id, dueAt, () => reportTrouble(services.db, id, { openedAt: at, dueAt }));
    }
    if (alerts.includes("circuit_closed"))
      await noted(services, id, at, () => reportClosed(services.db, id, at));
  }
}

/** Deliveries of the destination have ended dead. */
export async function noteDead(services: Services, destination: Destination): Promise<void> {
  if (!noticeChannelOf(destination)?.on.includes("dead")) return;
  const { id } = destination;
  const at = services.now();
  await noted(services, id, at, () => reportTrouble(services.db, id, { deadAt: at, dueAt: at }));
}

/** Stores a report, and enqueues the step that it makes due, unless an earlier one is. */
async function noted(
  services: Services,
  id: string,
  dueAt: number,
  report: () => Promise<number | undefined>,
): Promise<void> {
  await orLogged(services, { what: "trouble_not_noted", destination: id }, async () => {
    if ((await report()) === dueAt) await noticing.enqueue(services, id, dueAt);
  });
}
