/**
 * Canaries: one secret of each kind, unlike anything else, and every text that a scenario has left anywhere. A canary
 * that is found where it may not be, in any form, has leaked.
 */
import { listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { storedObjects } from "./bucket.ts";
import { testDatabases, unlessWritten } from "./databases.ts";
import { SecretPieces } from "./secret-pieces.ts";

/** A text, and where it was found. */
export type Trace = Readonly<{ where: string; text: string }>;

export type Canary = Readonly<{
  name: string;
  secret: string;
  /** Where it may be, by the beginning of `where`: the answer that shows it once. */
  allowed?: readonly RegExp[];
}>;

/** Every canary in a text where it may not be, with the place. */
export function leaksIn(canaries: readonly Canary[], traces: readonly Trace[]): string[] {
  const known = canaries.map((canary) => {
    const pieces = new SecretPieces();
    pieces.add(canary.secret);
    return { ...canary, pieces };
  });
  return traces.flatMap(({ where, text }) =>
    known.flatMap(({ name, pieces, allowed = [] }) => {
      if (allowed.some((place) => place.test(where))) return [];
      const piece = pieces.in(text);
      return piece === undefined ? [] : [`${where} has ${name}: ${piece}…`];
    }),
  );
}

/** Every row of every table in every database, as a trace each; compressed bytes are expanded. */
export const storedRows = unlessWritten(async (): Promise<readonly Trace[]> => {
  const traces = testDatabases.map(async (db, number) => {
    const { results: tables } = await db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB '_cf_*'")
      .all<{ name: string }>();
    const rows = tables.map(async ({ name }) => {
      const { results } = await db.prepare(`SELECT * FROM "${name}"`).all<Record<string, unknown>>();
      return Promise.all(
        results.flatMap((row) =>
          Object.entries(row).map(async ([column, value]) => ({
            where: `D1 ${number}: ${name}.${column}`,
            text: await textOf(value),
          })),
        ),
      );
    });
    return (await Promise.all(rows)).flat();
  });
  return (await Promise.all(traces)).flat();
});

/** Every object in R2. */
export async function keptObjects(): Promise<Trace[]> {
  return (await storedObjects()).map(({ name, text }) => ({ where: `R2 ${name}`, text: `${name} ${text}` }));
}

/** Everything in the storage of any gate or intake. */
export async function objectStorage(): Promise<Trace[]> {
  const traces: Trace[] = [];
  for (const [kind, namespace] of Object.entries({ GATES: env.GATES, INTAKE: env.INTAKE })) {
    for (const id of await listDurableObjectIds(namespace as DurableObjectNamespace)) {
      const stub = (namespace as DurableObjectNamespace).get(id);
      const entries = await runInDurableObject(stub, (_, { storage }) => [...storage.kv.list()]);
      for (const [key, value] of entries)
        traces.push({ where: `${kind} ${key}`, text: `${key} ${JSON.stringify(value)}` });
    }
  }
  return traces;
}

async function textOf(value: unknown): Promise<string> {
  if (!Array.isArray(value) && !(value instanceof ArrayBuffer)) return String(value);
  const bytes = new Uint8Array(value as ArrayBuffer);
  const [first, second] = bytes;
  const plain = new TextDecoder().decode(bytes);
  if (first !== 0x1f || second !== 0x8b) return plain;
  const expanded = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(expanded).text();
}
