/** `npm run migration -- --name what_changes` writes the next migration from the schema. */
import { defineConfig } from "drizzle-kit";

export default defineConfig({ dialect: "sqlite", schema: "./src/store/schema.ts", out: "./migrations" });
