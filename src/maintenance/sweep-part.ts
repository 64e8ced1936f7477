/** What the sweep and its parts say to each other. */
import type { SweepPart } from "../db/schema.ts";

/** What a part of the sweep has for one step. */
export type PartTurn = Readonly<{
  /** When the step began, epoch ms. */
  now: number;
  /** Whatever was due before this and has no outcome counts as lost, epoch ms. */
  horizon: number;
  page: number;
  /** What the part has said last time. */
  cursor: SweepPart["cursor"];
  /** Whether a part that has done something may do more: there are queries and time left. */
  mayGoOn: () => boolean;
  hasTime: () => boolean;
}>;

/** What a part has done in one step. */
export type PartResult = Readonly<{
  counts: Readonly<Record<string, number>>;
  cursor: SweepPart["cursor"];
  /** Whether a page is to go on with it. */
  more: boolean;
  /** Destinations whose gates do not know yet that something waits. */
  woken?: ReadonlySet<string>;
  /** What kept it from a part of its work. */
  failure?: unknown;
}>;
