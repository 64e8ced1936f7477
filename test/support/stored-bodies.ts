/** The stored bodies, for comparison with what was posted or sent. */
import type { StoredHeader } from "../../src/core/bundle.ts";
import { readContents } from "../../src/store/bundles.ts";
import { testDatabases } from "./databases.ts";

/** The bodies of all events of the databases, as text. */
export async function storedBodies(databases?: readonly D1Database[]): Promise<string[]> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  return (await storedBytes(databases)).map((body) => decoder.decode(body));
}

/** The bodies of all events of the databases, in order. Throws when one cannot be read. */
export async function storedBytes(databases: readonly D1Database[] = testDatabases): Promise<Uint8Array[]> {
  const bodies: Uint8Array[] = [];
  for (const db of databases) {
    const { results } = await db
      .prepare("SELECT id, header, hex(body) AS hex FROM bundles ORDER BY id")
      .all<{ id: number; header: string; hex: string }>();
    for (const { id, header, hex } of results) {
      const some = await readContents(hex, JSON.parse(header) as StoredHeader);
      if (!some) throw new Error(`The bodies of bundle ${id} cannot be read`);
      bodies.push(...some.map(({ body }) => body));
    }
  }
  return bodies;
}
