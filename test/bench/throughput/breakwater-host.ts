/** The process that Breakwater runs in: bindings as wrangler.toml says, and an address of its own. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { bundleWorker } from "../../../src/local/bundle.ts";
import { ensureDevVars } from "../../../src/local/dev-vars.ts";
import { projectRoot } from "../../../src/local/wrangler.ts";
import { KEY } from "./contender.ts";

const place = mkdtempSync(join(tmpdir(), "breakwater-bench-"));
process.once("exit", () => rmSync(place, { recursive: true, force: true }));
ensureDevVars();
// What is bundled needs no rules about its modules.
const { modulesRules: _, ...fromConfig } = workerOptionsOf(join(projectRoot, "wrangler.toml")).workerOptions;
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    ...fromConfig,
    name: "breakwater",
    modules: true,
    modulesRoot: place,
    rootPath: place,
    scriptPath: await bundleWorker(place),
    bindings: { ...(fromConfig.bindings as object), ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" },
    host: "127.0.0.1",
    port: 0,
    d1Persist: join(place, "d1"),
    durableObjectsPersist: join(place, "gates"),
  } as V4MiniflareOptions),
);
const url = await miniflare.ready;
await migrate();
process.send?.(url.origin);
process.once("SIGTERM", async () => {
  await miniflare.dispose();
  process.exit(0);
});

async function migrate(): Promise<void> {
  const db = await miniflare.getD1Database("DB");
  const folder = join(projectRoot, "migrations");
  for (const file of readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .sort()) {
    const sql = readFileSync(join(folder, file), "utf8");
    for (const statement of sql.split("--> statement-breakpoint")) await db.prepare(statement).run();
  }
}
