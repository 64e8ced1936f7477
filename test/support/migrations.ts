/** Applies the migrations: every test file begins with empty databases. */
import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { testDatabases } from "./databases.ts";

const { MIGRATIONS } = env as unknown as { MIGRATIONS: D1Migration[] };
await Promise.all(testDatabases.map((db) => applyD1Migrations(db, MIGRATIONS)));
