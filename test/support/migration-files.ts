/** The migrations as files, for databases that Wrangler does not migrate. For Node. */
import { readdirSync, readFileSync } from "node:fs";

const FOLDER = `${import.meta.dirname}/../../migrations/`;

/** The SQL of each file, in their order. */
export function migrationFiles(): string[] {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".sql"));
  return files.sort().map((file) => readFileSync(`${FOLDER}${file}`, "utf8"));
}
