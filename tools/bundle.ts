/**
 * The Worker as a bundle: `wrangler dev` watches the sources and restarts it whenever one is saved; a bundle stays as it was.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { copyCached } from "./cached-folders.ts";
import { projectRoot, runWrangler } from "./wrangler.ts";

const META = "bundle-meta.json";

/**
 * Bundles the Worker into a directory and returns the path of the file.
 * @param main the entry point
 * @param flags further flags for wrangler
 */
export async function bundleWorker(directory: string, main = "src/worker.ts", flags: readonly string[] = []) {
  const bundle = (place: string) =>
    runWrangler(["deploy", main, "--dry-run", "--outdir", place, "--metafile", join(place, META), ...flags]);
  const file = join(directory, `${basename(main, ".ts")}.js`);
  // The sources of another version are bundled only once, so that bundle is not cached.
  if (!resolve(projectRoot, main).startsWith(projectRoot)) await bundle(directory);
  else
    await copyCached(directory, `bundle-${nameOf([main, ...flags])}`, async (place) => {
      await bundle(place);
      return sourcesOf(place, resolve(projectRoot, configIn(flags)));
    });
  return file;
}

function nameOf(args: readonly string[]): string {
  return createHash("sha256").update(args.join("\n")).digest("hex").slice(0, 16);
}

function configIn(flags: readonly string[]): string {
  const at = flags.indexOf("--config");
  return (at < 0 ? undefined : flags[at + 1]) ?? "wrangler.toml";
}

/** The files that decide about the bundle: its sources, its configuration, and the versions of packages. */
function sourcesOf(place: string, config: string): string[] {
  const { inputs } = JSON.parse(readFileSync(join(place, META), "utf8")) as { inputs: object };
  const sources = Object.keys(inputs).map((path) => resolve(dirname(config), path));
  // Wrangler adds files of its own, which are gone by now.
  return [config, join(projectRoot, "package-lock.json"), ...sources.filter((path) => existsSync(path))];
}
