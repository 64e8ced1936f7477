/**
 * The D1 queries of drains, of which the platform gives an invocation 1,000: a step looks into every database, and loads and
 * records in those that have its deliveries.
 */
import { LEASED } from "./drain-scheduler.ts";

/** The rest of the 1,000 is for repeats of calls that have failed (store/databases.ts). */
export const DRAIN_QUERIES = 900;
/**
 * In each database: one to find waiting deliveries, and four to load all of them, if conversions or a transformation
 * need their events.
 */
const LOOKING = 5;
/** In each database that has deliveries of the step: to load them and to record their outcomes. */
const ATTEMPTING = 9;
/** In the first database. */
const OTHERS = 10;

/** Deliveries that a step may take: if its queries do not suffice for all databases, only as many as they suffice for. */
export function mostOfStep(databases: number): number {
  const most = Math.floor((DRAIN_QUERIES - LOOKING * databases - OTHERS) / ATTEMPTING);
  return most >= databases ? LEASED : Math.max(1, most);
}

/** The most queries of a step. */
export function queriesOfStep(databases: number): number {
  return LOOKING * databases + ATTEMPTING * Math.min(databases, mostOfStep(databases)) + OTHERS;
}

/** Whether each of this many drains may begin a step after this many queries of their invocation. */
export function mayBeginSteps(queries: number, databases: number, drains: number): boolean {
  return queries + drains * queriesOfStep(databases) <= DRAIN_QUERIES;
}

/** How many drains may run side by side, so that each can make a step, and others `toCome` after them. At least one may. */
export function mostSideBySide(databases: number, toCome: number): number {
  const most = Math.floor(DRAIN_QUERIES / queriesOfStep(databases)) - toCome;
  return Math.max(toCome > 0 ? 0 : 1, most);
}
