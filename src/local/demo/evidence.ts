/**
 * What the receiver saw of one destination, in figures. Breakwater's own word is not evidence of what it
 * did; the log of the other side is.
 */
import type { Hit } from "../receiver.ts";
import { QUIET_S } from "./fates.ts";

export type Evidence = Readonly<{
  attempts: number;
  /** Successful receptions beyond the first of an event. */
  duplicates: number;
  unsigned: number;
  /** Events of which two attempts had different bytes. */
  altered: number;
  refused: number;
  /** Requests under way at once, at the most. */
  atOnce: number;
  quiets: number;
  /** Of each request that arrived while the receiver had asked for quiet: how long after it had, in ms. */
  early: readonly number[];
}>;

/** Requests that were on their way when the receiver asked for quiet are not held against anybody. */
export const ON_THE_WAY_MS = 250;

export function evidenceOf(hits: readonly Hit[]): Evidence {
  const byEvent = [...Map.groupBy(hits, ({ id }) => id).values()];
  const quiets = hits.filter(({ status }) => status === 429);
  return {
    attempts: hits.length,
    duplicates: byEvent.reduce((sum, same) => sum + Math.max(0, same.filter(succeeded).length - 1), 0),
    unsigned: hits.filter(({ verified }) => !verified).length,
    altered: byEvent.filter((same) => new Set(same.map(({ body }) => body)).size > 1).length,
    refused: hits.filter((hit) => !succeeded(hit)).length,
    atOnce: Math.max(0, ...hits.map(({ at }) => hits.filter((other) => isOpenAt(other, at)).length)),
    quiets: quiets.length,
    early: hits.flatMap(({ at }) => quiets.flatMap(({ answeredAt = at }) => intoQuiet(at - answeredAt))),
  };
}

export function succeeded({ status = 0 }: Hit): boolean {
  return status >= 200 && status < 300;
}

function isOpenAt({ at, answeredAt = Number.POSITIVE_INFINITY }: Hit, moment: number): boolean {
  return at <= moment && moment < answeredAt;
}

function intoQuiet(ms: number): number[] {
  return ms > ON_THE_WAY_MS && ms < QUIET_S * 1000 ? [ms] : [];
}
