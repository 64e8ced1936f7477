/**
 * The destinations of a database of 0.1.0, whose tables no migration leads on from, as what the import of a tenant's
 * configuration takes (api/tenant-config.ts). Secrets were sealed then as they are now, so the same master key opens them.
 */
import { type MasterKeys, unseal } from "../secrets/vault.ts";

/** A row of its table `destinations`, as `wrangler d1 execute --json` prints it. */
type Row = Readonly<{
  id: string;
  tenant: string;
  url: string;
  event_types: string | null;
  description: string | null;
  metadata: string | null;
  headers: string | null;
  filter: string | null;
  secret: string;
  status: "active" | "paused";
  max_concurrency: number;
  rate_per_second: number;
  rate_burst: number;
  timeout_ms: number;
  retry: string | null;
  breaker_failure_ratio: number;
  breaker_min_attempts: number;
  breaker_window_s: number;
  breaker_cooldown_s: number;
  breaker_max_cooldown_s: number;
  deleted_at: number | null;
}>;

/** What is imported for a tenant in one request. */
export type TenantDocument = Readonly<{
  tenant: string;
  body: Readonly<{ version: 1; destinations: readonly object[] }>;
}>;

/** The most that one import takes. */
const MOST_IMPORTED = 200;
const SIGNING = ["hmac-sha256", "ed25519"];

/** The statement whose result is read. */
export const QUERY = "SELECT * FROM destinations WHERE deleted_at IS NULL";

/**
 * The rows in what `wrangler d1 execute --json` has printed for `QUERY`.
 * @throws an error that says what the text is not
 */
export function rowsIn(text: string): Row[] {
  const begin = text.indexOf("[");
  try {
    const [answer] = JSON.parse(text.slice(begin)) as readonly Readonly<{ results?: readonly Row[] }>[];
    const rows = answer?.results ?? [];
    if (rows.every(isOfFirstRelease)) return rows.filter(({ deleted_at }) => deleted_at === null);
  } catch {
    // It is said below.
  }
  throw new Error(
    `The file is not what this prints on a database of 0.1.0: npx wrangler d1 execute … --json --command "${QUERY}"`,
  );
}

/** Later ones have no `previous_secret`. */
function isOfFirstRelease(row: object): boolean {
  return ["id", "tenant", "url", "secret", "previous_secret", "breaker_window_s"].every(
    (name) => name in row,
  );
}

/**
 * The documents to import, one for each 200 destinations of a tenant.
 * @throws an error that names each destination whose secret does not open
 */
export async function documentsOf(rows: readonly Row[], keys: MasterKeys): Promise<TenantDocument[]> {
  const faults: string[] = [];
  const documents: TenantDocument[] = [];
  for (const [tenant, own] of Map.groupBy(rows, (row) => row.tenant)) {
    const destinations: object[] = [];
    for (const row of own) {
      try {
        destinations.push({ ...settingsOf(row), secret: await unseal(keys, row.id, row.secret, SIGNING) });
      } catch (error) {
        faults.push(`${row.id}: ${error instanceof Error ? error.message : "cannot be read"}`);
      }
    }
    for (let i = 0; i < destinations.length; i += MOST_IMPORTED)
      documents.push({
        tenant,
        body: { version: 1, destinations: destinations.slice(i, i + MOST_IMPORTED) },
      });
  }
  if (faults.length > 0) throw new Error(`Nothing has been imported.\n${faults.join("\n")}`);
  return documents;
}

function settingsOf(row: Row): object {
  return {
    id: row.id,
    url: row.url,
    status: row.status,
    event_types: parsed(row.event_types),
    filter: parsed(row.filter),
    description: row.description,
    metadata: parsed(row.metadata) ?? {},
    headers: parsed(row.headers),
    max_concurrency: row.max_concurrency,
    rate_per_second: row.rate_per_second,
    rate_burst: row.rate_burst,
    timeout_ms: row.timeout_ms,
    retry: parsed(row.retry),
    breaker: {
      failure_ratio: row.breaker_failure_ratio,
      min_attempts: row.breaker_min_attempts,
      window_s: row.breaker_window_s,
      cooldown_s: row.breaker_cooldown_s,
      max_cooldown_s: row.breaker_max_cooldown_s,
    },
  };
}

function parsed(json: string | null): unknown {
  return json === null ? null : JSON.parse(json);
}
