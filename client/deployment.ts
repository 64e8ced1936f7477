/**
 * The files of a folder that `breakwater init` makes: the Worker as one file, its migrations, and the script that
 * deploys it.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildOptions, build } from "esbuild";

const project = join(import.meta.dirname, "..");

/** Writes the files into the folder, the licenses of the packages in the bundles, and an SBOM (CycloneDX) of these packages. */
export async function bundleDeployment(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  cpSync(join(project, "wrangler.toml"), join(folder, "wrangler.toml"));
  const isMigration = (source: string) => !/\.json$|meta$/.test(source);
  cpSync(join(project, "migrations"), join(folder, "migrations"), { recursive: true, filter: isMigration });
  const worker = await bundled({
    entryPoints: ["src/worker.ts"],
    outfile: join(folder, "worker.js"),
    platform: "browser",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    minify: true,
  });
  const script = await bundled({
    entryPoints: ["tools/deploy.ts"],
    outfile: join(folder, "deploy.js"),
    platform: "node",
    external: ["wrangler"],
    // Older versions of Node do not have it, and the bundle is only ever run.
    define: { "import.meta.main": "true" },
  });
  const packages = [...new Set([...worker, ...script])].sort();
  writeFileSync(join(folder, "licenses.txt"), licensesOf(packages));
  writeFileSync(join(folder, "sbom.cdx.json"), jsonOf(sbomOf(packages)));
  const { version, devDependencies } = packageAt(project);
  const wrangler = devDependencies?.wrangler;
  const manifest = {
    private: true,
    scripts: { deploy: "node breakwater/deploy.js" },
    devDependencies: { "breakwater-client": version, wrangler },
  };
  writeFileSync(join(folder, "package.json"), jsonOf(manifest));
}

const jsonOf = (value: object) => `${JSON.stringify(value, null, 2)}\n`;

type Manifest = Readonly<{
  name: string;
  version: string;
  license?: string;
  devDependencies?: Readonly<Record<string, string>>;
}>;

const packageAt = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/** Returns the folders of the packages in the bundle. */
async function bundled(options: BuildOptions): Promise<readonly string[]> {
  const { metafile } = await build({
    absWorkingDir: project,
    bundle: true,
    format: "esm",
    target: "es2023",
    legalComments: "none",
    metafile: true,
    ...options,
  });
  return Object.keys(metafile?.inputs ?? {}).flatMap(
    (file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [],
  );
}

/** `npm sbom --omit dev` would leave out the packages that development depends on too, such as zod. */
function sbomOf(folders: readonly string[]): object {
  const { packages } = JSON.parse(readFileSync(join(project, "package-lock.json"), "utf8"));
  const component = (type: string, { name, version, license }: Manifest) => {
    const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
    return { type, "bom-ref": purl, name, version, licenses: [{ expression: license }], purl };
  };
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: component("application", packageAt(project)) },
    components: folders.map((folder) => {
      const digest = packages[folder].integrity.replace("sha512-", "");
      const content = Buffer.from(digest, "base64").toString("hex");
      return {
        ...component("library", packageAt(join(project, folder))),
        hashes: [{ alg: "SHA-512", content }],
      };
    }),
  };
}

function licensesOf(folders: readonly string[]): string {
  return folders
    .map((folder) => {
      const { name, version, license } = packageAt(join(project, folder));
      return `${name} ${version} (${license})\n\n${licenseIn(join(project, folder))}`;
    })
    .sort()
    .join("\n----\n\n");
}

function licenseIn(folder: string): string {
  for (const name of ["LICENSE", "LICENSE.md", "license"])
    try {
      return readFileSync(join(folder, name), "utf8");
    } catch {}
  return "";
}
