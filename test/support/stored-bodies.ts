/** The bodies as they are stored, for whoever compares them with what was posted or sent. */
import type { StoredHeader } from "../../src/core/bundle.ts";
import { readBodies } from "../../src/store/bodies.ts";
import { rowsOfAll } from "./databases.ts";

/** Of all events, in their order. Throws when one cannot be read. */
export async function storedBodies(): Promise<string[]> {
  const rows = await rowsOfAll<{ id: number; header: string; hex: string }>(
    "SELECT id, header, hex(body) AS hex FROM bundles ORDER BY id",
  );
  const bodies: string[] = [];
  for (const { id, header, hex } of rows) {
    const some = await readBodies(hex, JSON.parse(header) as StoredHeader);
    if (!some) throw new Error(`The bodies of bundle ${id} cannot be read`);
    bodies.push(...some.map((body) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(body)));
  }
  return bodies;
}
