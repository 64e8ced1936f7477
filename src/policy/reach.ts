/**
 * How far a drain looks for deliveries that no other drain holds: no further than it must, because D1 bills
 * what is looked at, and does one thing at a time.
 *
 * At the ends of what waits it finds as many as it may lease, unless others are at work there. Then it looks
 * a little further, and at a place of its own between the ends, which costs the same however many drains work
 * side by side. Only where that is taken too, it looks at as many as all of them together may hold.
 */

/** Deliveries that one drain leases at once: as many as a bundle has, so that each is loaded once. */
export const LEASED = 100;

export type DrainRange = Readonly<{
  /** Deliveries looked at from each end of what waits, and from a place between them. */
  perEnd: number;
  between: number;
  /** Whether a drain that finds nothing here has to wait for the others. */
  isFurthest: boolean;
}>;

/**
 * @param drains at work side by side, this one included
 * @param distance 0 is the nearest; so many times it has been too crowded there
 * @param own deliveries that it is working off while it looks: it looks past them, and past what others hold so
 */
export function drainRangeOf(drains: number, distance: number, own = 0): DrainRange {
  const held = own > 0 ? 2 : 1;
  // For a few drains it is not worth another call of the gate.
  const isFurthest = drains <= 3 || distance > 1;
  if (isFurthest) return { perEnd: (LEASED / 2) * drains * held, between: 0, isFurthest };
  return distance === 0
    ? { perEnd: (LEASED / 2) * held, between: 0, isFurthest }
    : { perEnd: LEASED, between: LEASED, isFurthest };
}

/**
 * How far a drain looks next. Where others have been they still are: it does not go back to the nearest, which
 * is for whoever comes first.
 * @param crowded whether others held most of what it looked at
 */
export function nextDistance(distance: number, crowded: boolean): number {
  return crowded ? distance + 1 : Math.min(distance, 1);
}
