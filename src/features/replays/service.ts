/**
 * Replays: started, listed, shown, paused, resumed and cancelled. A replay requeues the ended deliveries of a
 * destination, or plans missing ones, at a rate that depends on their success (job.ts, pace.ts).
 */

import { type Permission, refuseTag } from "../../core/principal.ts";
import type { ReplayReason } from "../../core/reasons.ts";
import {
  conflict,
  errorIf,
  type FieldError,
  invalidField,
  invalidFields,
  missing,
  ok,
  type RefusalKind,
  type Result,
} from "../../core/result.ts";
import { newReplayId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { keptOfTenant } from "../../store/content-retention.ts";
import { allOf, sumOver } from "../../store/databases.ts";
import { type Destination, limitsOf } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import { beginReplay, countCandidates, LARGEST, replayPartsOf } from "../../store/replay-steps.ts";
import {
  changeReplay,
  findReplay,
  listReplays,
  type Replay,
  type ReplayChange,
  replayUnderWay,
  summedUp,
  withParts,
} from "../../store/replays.ts";
import type { ReplayState } from "../../store/schema.ts";
import { idRangeOf } from "../../store/time-ranges.ts";
import { isoTime } from "../../time.ts";
import type { NewAuditEntry } from "../audit/sql.ts";
import { rangeErrors } from "../parameters.ts";
import { service, servicesAbout } from "../service.ts";
import { replaying } from "./job.ts";
import { expectedDurationMs } from "./pace.ts";
import type { NewReplay, ReplaysAtOnce, ReplayView } from "./schema.ts";

const resending = { scope: "admin", action: "resend", role: "repair" } as const;

/** Starts a replay of the destination. A conflict while it has another. */
export const startReplay = service(resending, async ({ services, principal, changed }, input: NewReplay) => {
  const refusal = refuseTag(principal, input.tag);
  if (refusal) return refusal;
  const errors = planErrors(input, services.now());
  if (errors.length > 0) return invalidFields(errors);
  const id = input.destination_id;
  const destination = await findDestination(services.db, id, principal.tenant);
  if (destination === undefined) return missing("destination", id);
  const started = await start(services, destination, input);
  if (started.kind === "too_many") return TOO_MANY;
  if (started.kind === "occupied") return occupied(services, id);
  const { replay } = started;
  services.log({ what: "replay_begun", replay: replay.id, destination: id, include: replay.include });
  services.background(replaying.enqueue(services, replay.id, services.now()));
  changed("replay.started", replay);
  return ok(replay);
});

/** The result for the replay of one destination. */
export type StartedReplay = Readonly<{ id: string; result: Result<Replay, RefusalKind> }>;

/** Starts a replay of each of the destinations. Each is started or refused separately, in the order given, each once. */
export const startReplays = service(
  resending,
  async (call, { destination_ids: ids, ...input }: ReplaysAtOnce) => {
    const errors = planErrors(input, call.services.now());
    if (errors.length > 0) return invalidFields(errors);
    const started: StartedReplay[] = [];
    for (const id of new Set(ids))
      started.push({ id, result: await startReplay(call, { ...input, destination_id: id }) });
    return ok(started);
  },
);

/** The most deliveries of a destination that an estimate counts, in each database. */
export const ESTIMATED = 1_000;

export type ReplayEstimate = Readonly<{
  destination: Destination;
  /**
   * The most that it can send, of any type and tag, up to `ESTIMATED`, which means that there may be more; undefined if
   * only the replay can find them.
   */
  count: number | undefined;
  /** While nothing is wrong; undefined like the count. */
  durationMs: number | undefined;
}>;

/** How much each of the replays would send, and how long that takes. Reads a bounded number of rows, and changes nothing. */
export const estimateReplays = service(
  { scope: "read" },
  async ({ services, principal }, input: ReplaysAtOnce) => {
    const { destination_ids: ids, since, until, include, rate_per_minute: rate } = input;
    const errors = planErrors(input, services.now());
    if (errors.length > 0) return invalidFields(errors);
    const found = await Promise.all(
      [...new Set(ids)].map((id) => findDestination(services.db, id, principal.tenant)),
    );
    const destinations = found.filter((one) => one !== undefined);
    const counts = await Promise.all(
      allOf(services).map(async (db) => {
        const range = await idRangeOf(db, { since, until });
        const of = ({ id: destinationId }: Destination) =>
          countCandidates(db, { include, destinationId }, range, ESTIMATED);
        return Promise.all(destinations.map(of));
      }),
    );
    return ok(
      destinations.map((destination, i): ReplayEstimate => {
        if (include === "missing") return { destination, count: undefined, durationMs: undefined };
        const sum = counts.reduce((all, one) => all + (one[i] ?? 0), 0);
        const most = limitsOf(destination).rate_per_second * 60;
        const count = Math.min(ESTIMATED, sum);
        return { destination, count, durationMs: expectedDurationMs(count, rate, most) };
      }),
    );
  },
);

type Filter = Omit<Parameters<typeof listReplays>[1], "tenant">;

/** A page of replays, the newest first. */
export const getReplays = service({ scope: "read" }, async ({ services, principal }, filter: Filter) =>
  ok(await listReplays(services, { ...filter, tenant: principal.tenant })),
);

const replayService = servicesAbout("replay", ({ services, principal }, id) =>
  findReplay(services, id, principal.tenant),
);

export const getReplay = replayService({ scope: "read" }, async (_, replay) => ok(replay));

/** It requeues nothing until it is resumed. */
export const pauseReplay = transitionService({ scope: "admin", role: "repair" }, "pause", "replay.paused");
/** It continues where it was, at most at its initial rate. */
export const resumeReplay = transitionService({ scope: "admin", role: "repair" }, "resume", "replay.resumed");
/** It requeues nothing more. */
export const cancelReplay = transitionService(resending, "cancel", "replay.cancelled");

function transitionService(
  permission: Permission,
  name: "pause" | "resume" | "cancel",
  action: NewAuditEntry["action"],
) {
  return replayService(permission, async ({ services, changed }, before) => {
    const transition = transitions[name];
    const after = await changeState(services, before, transition);
    if (after.state !== transition.to) return conflict(`The replay has ended: it is ${after.state}`);
    if (after.state !== before.state) changed(action, after);
    return ok(after);
  });
}

type Started =
  | Readonly<{ kind: "started"; replay: Replay }>
  | Readonly<{ kind: "too_many" }>
  | Readonly<{ kind: "occupied" }>;

async function start(services: Services, destination: Destination, input: NewReplay): Promise<Started> {
  const { db, now, config } = services;
  const { id: destinationId, tenant } = destination;
  const { since, until, include, event_types: eventTypes = null, tag = null } = input;
  const { rate_per_minute: ratePerMinute } = input;
  const range = await idRangeOf(db, { since, until });
  const candidates = await sumOver(services, async (one) => {
    const within = one === db ? range : await idRangeOf(one, { since, until });
    return countCandidates(one, { include, destinationId }, within, LARGEST + 1);
  });
  if (candidates > LARGEST) return { kind: "too_many" };
  const at = { createdAt: now(), updatedAt: now(), nextStepAt: now() };
  const matching = input.matching === false ? 0 : 1;
  const asked = { include, matching, eventTypes, tag, since, until, ratePerMinute };
  const job = { id: newReplayId(), tenant, destinationId, ...asked };
  const state = { state: "running" as const, pace: ratePerMinute, cursor: range.first - 1 };
  const kept = await keptOfTenant(db, tenant, config.retentionMs);
  const began = await beginReplay(db, { ...job, ...state, ...at }, range, LARGEST, kept);
  if (began === undefined) return { kind: "occupied" };
  const parts = await replayPartsOf(services, began, kept);
  const replay = summedUp(
    began,
    parts.map((part) => part.replay),
  );
  return { kind: "started", replay };
}

type Planned = Omit<NewReplay, "destination_id">;

function planErrors({ since, until, include, matching }: Planned, now: number): FieldError[] {
  const isUseless = matching !== undefined && include !== "missing";
  const fault = `is ${matching}, and include is "${include}"`;
  return [
    ...rangeErrors(since, until),
    // Nothing has been accepted since then.
    ...errorIf(since > now, "since", `is ${isoTime(since)}`, "a time in the past"),
    ...errorIf(isUseless, "matching", fault, 'include "missing" beside it, or nothing'),
  ];
}

const TOO_MANY = invalidField(
  "since",
  `starts a range with more than ${LARGEST} deliveries`,
  "a shorter range: replay it in parts",
);

async function occupied({ db }: Services, destination: string) {
  const other = await replayUnderWay(db, destination);
  const which = other ? `: ${other.id} is ${other.state}` : "; it has just ended";
  return conflict(`The destination already has a replay${which}. Wait until it ends, or cancel it`);
}

/** A change of state by an operator: from which states, and what else it changes. */
type Transition = Readonly<{
  to: ReplayState;
  from: readonly ReplayState[];
  change: (replay: Replay, now: number) => ReplayChange;
}>;

const transitions = {
  pause: { to: "paused", from: ["running"], change: () => ({ reason: "manual" }) },

  resume: {
    to: "running",
    from: ["paused"],
    change: ({ pace, ratePerMinute }, now) => ({
      reason: null,
      pace: Math.min(pace, ratePerMinute),
      nextStepAt: now,
    }),
  },
  cancel: {
    to: "cancelled",
    from: ["running", "paused"],
    change: (_, now) => ({ reason: "manual", endedAt: now }),
  },
} as const satisfies Record<string, Transition>;

/** The replay after the transition; as it is when it has ended or is in that state already. */
async function changeState(services: Services, replay: Replay, { to, from, change }: Transition) {
  const now = services.now();
  const made = { ...change(replay, now), state: to };
  const after = await changeReplay(services.db, replay.id, from, made, now);
  if (after === undefined) return (await findReplay(services, replay.id, undefined)) ?? replay;
  services.log({ what: `replay_${to}`, replay: replay.id, destination: replay.destinationId });
  if (to === "running") services.background(replaying.enqueue(services, replay.id, now));
  const [shown = after] = await withParts(services, [after]);
  return shown;
}

export function replayView(replay: Replay): ReplayView {
  const { include, matching, state, total, requeued } = replay;
  const isMissing = include === "missing";
  return {
    id: replay.id,
    tenant: replay.tenant,
    destination_id: replay.destinationId,
    include,
    ...(isMissing && { matching: matching !== 0 }),
    event_types: replay.eventTypes && [...replay.eventTypes],
    tag: replay.tag,
    since: isoTime(replay.since),
    until: isoTime(replay.until),
    rate_per_minute: replay.ratePerMinute,
    state,
    reason: replay.reason as ReplayReason | null,
    total: isMissing ? (state === "completed" ? requeued : null) : total,
    requeued,
    delivered: replay.delivered,
    failed: replay.failed,
    current_rate_per_minute: Math.round(replay.pace * 10) / 10,
    created_at: isoTime(replay.createdAt),
    updated_at: isoTime(replay.updatedAt),
    ended_at: isoTime(replay.endedAt),
  };
}
