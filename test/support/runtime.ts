/**
 * The local runtime without the proxy of `wrangler dev`: for benches, and for browsers, whose connections stay open
 * longer than that proxy allows.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";

/** The part of a database that is needed to prepare it: the platform's types and Node's are incompatible here. */
export type Database = Readonly<{
  prepare: (sql: string) => {
    bind: (...values: unknown[]) => { run: () => Promise<unknown> };
    first: <T>(column: string) => Promise<T | null>;
    run: () => Promise<unknown>;
  };
}>;

export type Runtime = Readonly<{
  url: string;
  db: Database;
  /** Makes a request to another of its Workers, by its name. */
  request: (worker: string, url: string, init?: object) => Promise<Response>;
  /** Ends the runtime. Its state is removed with this process. */
  stop: () => Promise<void>;
}>;

/** @param options of the Worker, given a directory of its own */
export async function startRuntime(
  options: (place: string) => Promise<object> | object,
  statements: readonly string[],
): Promise<Runtime> {
  const place = mkdtempSync(join(tmpdir(), "breakwater-runtime-"));
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
  const db = (await miniflare.getD1Database("DB")) as unknown as Database;
  // All at once: separate statements would be a request or two each, and there are a hundred.
  const all = statements.map((statement) => statement.trim().replace(/;$/, "")).join(";\n");
  if (all !== "") await db.prepare(all).run();
  const request = async (worker: string, to: string, init?: object) =>
    (await miniflare.getWorker(worker)).fetch(to, init) as unknown as Promise<Response>;
  return { url: url.origin, db, request, stop: () => miniflare.dispose() };
}

/** For a process that only runs the runtime: sends its parent the address, and ends on request. */
export function serve({ url, stop }: Runtime): void {
  process.once("SIGTERM", async () => {
    await stop();
    process.exit(0);
  });
  process.send?.(url);
}
