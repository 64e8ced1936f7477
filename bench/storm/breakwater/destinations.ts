/** Destinations of a simulation: the table's defaults, except for what a scenario sets. */
import type { DatabaseSync } from "node:sqlite";

/** The settings of a scenario: columns of `destinations`. */
export type DestinationSettings = Readonly<{
  maxConcurrency?: number;
  ratePerSecond?: number;
  rateBurst?: number;
  timeoutMs?: number;
  retry?: string;
  breakerCooldownS?: number;
  breakerMaxCooldownS?: number;
  group?: string;
}>;

const COLUMNS: Readonly<Record<keyof DestinationSettings, string>> = {
  maxConcurrency: "max_concurrency",
  ratePerSecond: "rate_per_second",
  rateBurst: "rate_burst",
  timeoutMs: "timeout_ms",
  retry: "retry",
  breakerCooldownS: "breaker_cooldown_s",
  breakerMaxCooldownS: "breaker_max_cooldown_s",
  group: "group_name",
};

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Inserts a destination with its own tenant, so that each event is for one destination. */
export function insertDestination(db: DatabaseSync, place: number, settings: DestinationSettings): void {
  const set = Object.entries(settings) as [keyof DestinationSettings, string | number][];
  const columns = [
    "id",
    "tenant",
    "url",
    "secret",
    "created_at",
    "updated_at",
    ...set.map(([k]) => COLUMNS[k]),
  ];
  const id = `dst_${String(place).padStart(20, "0")}`;
  const values = [
    id,
    `t${place}`,
    `https://r${place}.example/`,
    SECRET,
    0,
    0,
    ...set.map(([, value]) => value),
  ];
  const marks = columns.map(() => "?").join(", ");
  db.prepare(`INSERT INTO destinations (${columns.join(", ")}) VALUES (${marks})`).run(...values);
}
