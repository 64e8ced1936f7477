/** Retention times: the deployment's, and shorter ones of tenants and types of events. */

export const DAY_MS = 86_400_000;

/** Stored days, which an operator may have edited by hand: null if they are not valid. */
export function wholeDays(stored: unknown): number | null {
  return typeof stored === "number" && Number.isInteger(stored) && stored >= 1 ? stored : null;
}

/** The shortest of the stored days that are set, in ms; infinite if none is. */
export function shortest(...stored: readonly unknown[]): number {
  return Math.min(...stored.map((one) => (wholeDays(one) ?? Number.POSITIVE_INFINITY) * DAY_MS));
}

/** For how long the events of a tenant are kept. */
export type RetentionTimes = Readonly<{
  ms: number;
  /** For events of these types; never longer. */
  types: Readonly<Record<string, number>>;
}>;

/** For how long events of the type are kept, in ms. Types may be called as what every object has: `constructor`. */
export function keptMsOf({ ms, types }: RetentionTimes, type: string): number {
  const own = Object.hasOwn(types, type) ? types[type] : undefined;
  return own ?? ms;
}
