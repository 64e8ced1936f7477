/** The command line as one file. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/**
 * Bundles the command, because it has parts of the deployment's source: its sentences about deliveries are the dashboard's.
 * The packages that the client depends on anyway are not in it; the one for YAML is, with its licence.
 */
export async function bundleCommandLine(outfile: string): Promise<void> {
  const yaml = join(import.meta.dirname, "../node_modules/yaml");
  const licence = readFileSync(join(yaml, "LICENSE"), "utf8");
  await build({
    entryPoints: [join(import.meta.dirname, "cli/main.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["openapi-fetch", "standardwebhooks", "fast-sha256"],
    // Its modules for browsers, which need no `require`.
    alias: { yaml: join(yaml, "browser/index.js") },
    banner: { js: "#!/usr/bin/env node" },
    footer: { js: `/* Contains yaml:\n${licence}*/` },
  });
}
