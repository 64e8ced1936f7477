/**
 * What the operator has been told of a destination, so that a door that flaps does not tell of every turn:
 * trouble is told of at once, again only after a while, and its end whenever its beginning was. Kept in the
 * gate's state, so that it costs no row.
 */
import type { DestinationState } from "./condition.ts";
import { isCalm, type Traffic, trafficSum } from "./traffic.ts";

/** A trouble that lasts, as far as it has been told, and when its beginning was told last (epoch ms; 0: never). */
type Trouble = Readonly<{ lasts: boolean; toldAt: number }>;

export type AlertState = Readonly<{ open: Trouble; storm: Trouble }>;

export type Alert = "circuit_opened" | "circuit_closed" | "storm_detected" | "recovered";

export const noAlerts: AlertState = {
  open: { lasts: false, toldAt: 0 },
  storm: { lasts: false, toldAt: 0 },
};

/** From one telling of a beginning to the next. A storm is judged over 15 minutes. */
const CIRCUIT_APART_MS = 60_000;
const STORM_APART_MS = 15 * 60_000;

/**
 * What is to be told now, if anything. Whoever tells a thing too late tells it with the next settlement.
 * @param recent the last 15 minutes
 */
export function alertsAfter(
  alertState: AlertState,
  { circuit }: DestinationState,
  recent: Traffic,
  now: number,
): Readonly<{ alertState: AlertState; alerts: readonly Alert[] }> {
  const isOpen = circuit.kind !== "closed";
  const sum = trafficSum(recent);
  const storms = sum.storm || (alertState.storm.lasts && (isOpen || !isCalm(sum)));
  const open = troubleAfter(alertState.open, isOpen, CIRCUIT_APART_MS, now);
  const storm = troubleAfter(alertState.storm, storms, STORM_APART_MS, now);
  const alerts = [
    ...noticed(alertState.open, open, "circuit_opened", "circuit_closed"),
    ...noticed(alertState.storm, storm, "storm_detected", "recovered"),
  ];
  return { alertState: { open, storm }, alerts };
}

function troubleAfter(told: Trouble, lasts: boolean, apartMs: number, now: number): Trouble {
  if (lasts === told.lasts) return told;
  if (!lasts) return { ...told, lasts };
  // A time in the future is a clock's that was wrong.
  const isSoon = told.toldAt <= now && now - told.toldAt < apartMs;
  return isSoon ? told : { lasts, toldAt: now };
}

function noticed(before: Trouble, after: Trouble, began: Alert, ended: Alert): Alert[] {
  if (after.lasts === before.lasts) return [];
  return [after.lasts ? began : ended];
}
