/**
 * The local runtime without the proxy of `wrangler dev`: for what is measured, and for browsers, whose
 * connections stay open longer than that proxy bears.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";

/** What is needed of a database to prepare it: types of the platform do not meet those of Node here. */
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
  /** Requests another of its Workers, by its name. */
  request: (worker: string, url: string, init?: object) => Promise<Response>;
  /** Ends the runtime. Its state goes with this process. */
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
  // At once: each by itself would be a request or two, of a hundred.
  const all = statements.map((statement) => statement.trim().replace(/;$/, "")).join(";\n");
  if (all !== "") await db.prepare(all).run();
  const request = async (worker: string, to: string, init?: object) =>
    (await miniflare.getWorker(worker)).fetch(to, init) as unknown as Promise<Response>;
  return { url: url.origin, db, request, stop: () => miniflare.dispose() };
}

/** For a process that is the runtime's own: sends its parent the address, and ends when asked to. */
export function serve({ url, stop }: Runtime): void {
  process.once("SIGTERM", async () => {
    await stop();
    process.exit(0);
  });
  process.send?.(url);
}
