/** What reached a receiver, second by second, cut down to as many points as a picture has room for. Pure. */
import type { OutageReport } from "../../lab/simulate-outage.ts";

/** The fullest second of a stretch. */
export type Point = Readonly<{ second: number; requests: number; failed: number }>;

const POINTS = 240;

/** @param seconds how much of the time is wanted, from the beginning */
export function fullestOf({ arrivals, failures }: OutageReport, seconds: number): readonly Point[] {
  const stretch = Math.max(1, Math.ceil(seconds / POINTS));
  return Array.from({ length: Math.ceil(seconds / stretch) }, (_, i) => {
    const from = i * stretch;
    const within = Array.from({ length: stretch }, (_, k) => pointAt(from + k));
    return { ...within.reduce((a, b) => (b.requests > a.requests ? b : a)), second: from };
  });

  function pointAt(second: number): Point {
    const requests = arrivals[second] ?? 0;
    // Failures are noted when they are answered: in the same second, or soon after.
    return { second, requests, failed: Math.min(requests, failures[second] ?? 0) };
  }
}
