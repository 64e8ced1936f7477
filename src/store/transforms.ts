/**
 * Transformations as they are stored: the current version in the destination's row, which is loaded with every delivery, and
 * former ones in a table of their own, which is read only for events that are older than the current version. A trigger
 * moves them there.
 */
import { eq, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { type TransformVersion, transformVersionIn } from "../core/transform/versions.ts";
import { type Destination, destinations } from "./destination.ts";
import { transforms } from "./tables.ts";

const { transform } = destinations;

/**
 * The column's value with this as the next version; unchanged if template and code are the same. Computed in the
 * statement that saves it, so that two at the same time become two versions, and each event of the first database is
 * before or after it.
 */
export function nextVersion(next: TransformVersion): SQL {
  const current = sql`iif(json_valid(${transform}), ${transform}, NULL)`;
  const template = JSON.stringify(next.template ?? null);
  const isSame = sql`coalesce(${current} -> '$.template', 'null') = ${template}
    AND coalesce(${current} ->> '$.code', '') = ${next.code ?? ""}`;
  return sql`CASE WHEN ${isSame} THEN ${transform}
    ELSE json_set(${JSON.stringify(next)}, '$.version', coalesce(${current} ->> '$.version', 0) + 1,
      '$.after', (SELECT coalesce(max(id), 0) FROM bundles)) END`;
}

/** The current version; null: none. Undefined where it was edited into something else. */
export function currentTransform({
  transform: stored,
}: Pick<Destination, "transform">): TransformVersion | null | undefined {
  return stored === null ? null : transformVersionIn(stored);
}

/** The versions before the current one, the oldest first. */
export async function formerTransforms(db: D1Database, destination: string): Promise<TransformVersion[]> {
  const { destinationId, version } = transforms;
  const rows = await drizzle(db)
    .select()
    .from(transforms)
    .where(eq(destinationId, destination))
    .orderBy(version);
  return rows.flatMap(({ transform: stored }) => transformVersionIn(stored) ?? []);
}
