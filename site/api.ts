/** Loads the page of the API. VitePress loads its configuration without the JSX of the house, Vite a module with it. */
import { join } from "node:path";
import { runnerImport } from "vite";

const file = join(import.meta.dirname, "api-page.tsx");

export const { module: api } = await runnerImport<typeof import("./api-page.tsx")>(file, {
  configFile: false,
});
