/**
 * `npm run build:client [folder]`: makes the package `breakwater-client` in the folder, `client/dist` by default, ready
 * for `npm pack` and `npm publish`.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { bundleCommandLine } from "./bundle.ts";
import { bundleDeployment } from "./deployment.ts";

const client = import.meta.dirname;
const out = resolve(process.argv[2] ?? join(client, "dist"));
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await import("./write-types.ts");
execFileSync(process.execPath, [tsc, "-p", join(client, "src"), "--outDir", out], { stdio: "inherit" });
await bundleCommandLine(join(out, "cli.js"));
await bundleDeployment(join(out, "deployment"));
for (const file of ["package.json", "README.md", "../LICENSE"])
  cpSync(join(client, file), join(out, file.replace("../", "")));
