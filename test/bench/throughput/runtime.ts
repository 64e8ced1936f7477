/** The local runtime without the proxy of `wrangler dev`: what the contenders on Workers run in. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";

/** @param options of the Worker, given a directory of its own */
export async function startRuntime(
  options: (place: string) => Promise<object> | object,
  statements: readonly string[],
): Promise<string> {
  const place = mkdtempSync(join(tmpdir(), "breakwater-bench-"));
  process.once("exit", () => rmSync(place, { recursive: true, force: true }));
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      host: "127.0.0.1",
      port: 0,
      d1Persist: join(place, "d1"),
      durableObjectsPersist: join(place, "objects"),
      ...(await options(place)),
    } as object as V4MiniflareOptions),
  );
  const url = await miniflare.ready;
  const db = await miniflare.getD1Database("DB");
  for (const statement of statements) await db.prepare(statement).run();
  process.once("SIGTERM", async () => {
    await miniflare.dispose();
    process.exit(0);
  });
  return url.origin;
}
