/** Times in JSON, in the format of RFC 3339. */

/** Beyond this, in ms before and after 1970, JavaScript knows no time (ECMAScript, Time Range). */
const FARTHEST_MS = 8.64e15;

/** Null stays null. What a person has edited into no time at all is shown as the beginning of 1970. */
export function isoTime<T extends number | null>(epochMs: T): T extends number ? string : string | null;
export function isoTime(epochMs: number | null): string | null {
  if (epochMs === null) return null;
  const isTime = Number.isFinite(epochMs) && Math.abs(epochMs) <= FARTHEST_MS;
  return new Date(isTime ? epochMs : 0).toISOString();
}
