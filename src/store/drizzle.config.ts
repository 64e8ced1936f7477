/** `npm run migration -- --name what_changes` writes the next migration from the tables. */
import { defineConfig } from "drizzle-kit";

export default defineConfig({
  dialect: "sqlite",
  schema: [
    "./src/store/schema.ts",
    "./src/store/destination.ts",
    "./src/store/group.ts",
    "./src/store/tables.ts",
  ],
  out: "./migrations",
});
