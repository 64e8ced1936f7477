/** The sealed secrets of all destinations, page by page, for whoever seals them anew. */

import { asc, gt } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { PreviousSecret } from "../policy/previous-secrets.ts";
import { destinations } from "./schema.ts";

export type SealedSecrets = Readonly<{
  id: string;
  secret: string;
  previousSecrets: readonly PreviousSecret[] | null;
}>;

/** In order of their ids, the deleted ones too: a key that is taken away must seal nothing any more. */
export async function sealedSecrets(db: D1Database, after: string, limit: number): Promise<SealedSecrets[]> {
  const { id, secret, previousSecrets } = destinations;
  return drizzle(db)
    .select({ id, secret, previousSecrets })
    .from(destinations)
    .where(gt(id, after))
    .orderBy(asc(id))
    .limit(limit);
}

const REPLACE = `
  UPDATE destinations SET secret = ?2, previous_secrets = ?3 WHERE id = ?1 AND secret = ?4`;

export type Replacement = Readonly<{ before: SealedSecrets; after: SealedSecrets }>;

/**
 * Replaces what is still as it was before; what was rotated meanwhile has been sealed with today's key anyway. The
 * current secret tells for those before it: nothing writes them without it.
 */
export async function replaceSecrets(db: D1Database, replacements: readonly Replacement[]): Promise<void> {
  if (replacements.length === 0) return;
  const statement = db.prepare(REPLACE);
  await db.batch(
    replacements.map(({ before, after }) =>
      statement.bind(after.id, after.secret, JSON.stringify(after.previousSecrets), before.secret),
    ),
  );
}
