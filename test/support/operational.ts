/** The operational events, in order. */
import { eventAt, headersOf, type StoredHeader } from "../../src/core/bundle.ts";
import { readContents } from "../../src/store/bundles.ts";

export type OperationalEvent = Readonly<{
  type: string;
  key: string | null;
  data: Readonly<Record<string, unknown>>;
}>;

export async function operationalEvents(db: D1Database): Promise<OperationalEvent[]> {
  const keys = await keysByEvent(db);
  const { results } = await db
    .prepare("SELECT id, header, hex(body) AS body FROM bundles ORDER BY id")
    .all<{ id: number; header: string; body: string }>();
  const bundles = results.map(async ({ id, header, body }) => {
    const stored: StoredHeader = JSON.parse(header);
    const contents = (await readContents(body, stored)) ?? [];
    return headersOf(stored).flatMap(({ tenant, type }, index) => {
      const { data = {} } = JSON.parse(new TextDecoder().decode(contents[index]?.body));
      return tenant === "operator" ? [{ type, key: keys.get(eventAt(id, index)) ?? null, data }] : [];
    });
  });
  return (await Promise.all(bundles)).flat();
}

async function keysByEvent(db: D1Database): Promise<ReadonlyMap<number, string>> {
  const { results } = await db
    .prepare("SELECT key, bundles, places FROM idempotency_keys WHERE tenant = 'operator'")
    .all<{ key: string; bundles: string; places: string }>();
  return new Map(
    results.flatMap(({ key, bundles, places }) =>
      (JSON.parse(places) as [number, number][]).map(
        ([nth, index]) => [eventAt(JSON.parse(bundles)[nth], index), key] as const,
      ),
    ),
  );
}
