/** The command line as one file. */
import { join } from "node:path";
import { build } from "esbuild";

/**
 * Bundles the command, because it has parts of the deployment's source: its sentences about deliveries are the dashboard's.
 * The packages that the client depends on anyway are not in it.
 */
export async function bundleCommandLine(outfile: string): Promise<void> {
  await build({
    entryPoints: [join(import.meta.dirname, "cli/main.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["openapi-fetch", "standardwebhooks"],
    banner: { js: "#!/usr/bin/env node" },
  });
}
