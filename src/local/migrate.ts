/** `npm run deploy` ends with this: the tables of every database that was deployed. */
import { applyRemoteMigrations } from "./migrations.ts";

try {
  await applyRemoteMigrations();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
