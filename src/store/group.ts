/**
 * Groups of destinations that share a receiver, as they are stored, and their effect on delivery. Most groups have no
 * row.
 */
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { GroupSettings } from "../core/group/group-state.ts";
import {
  defaultGroupLimits,
  type GroupLimits,
  groupBurstOf,
  groupLimitShape,
  groupSettingsFrom,
} from "../core/group/limits.ts";
import { readAs } from "../core/shape.ts";
import { jsonText } from "./columns.ts";
import { breakerOf, usable } from "./destination.ts";

/**
 * Limits of groups of destinations (core/group), made by an operator; null, or a value out of its range, is the
 * default. A group without a row has the defaults.
 */
export const groups = sqliteTable("groups", {
  name: text().primaryKey(),
  maxConcurrency: integer("max_concurrency"),
  ratePerSecond: real("rate_per_second"),
  rateBurst: integer("rate_burst"),
  breakerFailureRatio: real("breaker_failure_ratio"),
  breakerMinAttempts: integer("breaker_min_attempts"),
  breakerWindowS: integer("breaker_window_s"),
  breakerCooldownS: integer("breaker_cooldown_s"),
  breakerMaxCooldownS: integer("breaker_max_cooldown_s"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export type Group = typeof groups.$inferSelect;

/** The limits in effect, as the API writes them. */
export function groupLimitsOf(row: Group | undefined): GroupLimits {
  const { rate_burst: _, ...defaults } = defaultGroupLimits;
  const limits = usable(groupLimitShape.fields, defaults, {
    max_concurrency: row?.maxConcurrency,
    rate_per_second: row?.ratePerSecond,
  });
  const burst = readAs(groupLimitShape.fields.rate_burst, row?.rateBurst);
  return { ...limits, rate_burst: burst ?? groupBurstOf(limits.rate_per_second) };
}

export function groupSettingsOf(row: Group | undefined): GroupSettings {
  return groupSettingsFrom(groupLimitsOf(row), breakerOf(row ?? {}));
}

export async function findGroup(db: D1Database, name: string): Promise<Group | undefined> {
  return drizzle(db).select().from(groups).where(eq(groups.name, name)).get();
}

/** Hosts that more destinations share than the configuration says, as they were counted last (features/groups). */
export const sharedHosts = sqliteTable("shared_hosts", {
  /** Destinations that a host has at most without being shared. */
  most: integer().primaryKey(),
  countedAt: integer("counted_at").notNull(),
  hosts: jsonText<readonly string[]>([])().notNull(),
});

/** Undefined if they have not been counted with that number. */
export async function findSharedHosts(db: D1Database, most: number) {
  return drizzle(db).select().from(sharedHosts).where(eq(sharedHosts.most, most)).get();
}
