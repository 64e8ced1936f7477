/**
 * The official SDKs of Svix: what each needs on this machine, and how it is installed from its registry, built and run.
 * Installed packages stay between runs, in a folder that is named by the version.
 */
import { type ExecFileOptions, execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { lacking } from "../../../receivers/languages.ts";

const HERE = new URL(".", import.meta.url).pathname;
const CACHE = new URL("../../../node_modules/.cache/sdks/", import.meta.url).pathname;

/** A program that runs the story. */
export type Program = Readonly<{
  command: string;
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** Where the program alone knows it. */
  version?: string;
}>;

export type Sdk = Readonly<{
  /** The language. */
  name: string;
  /** The version that is pinned here; undefined for that of the machine. */
  version: string | undefined;
  /** Its own name here, with which the names in its story begin: lower case, digits and `-`. */
  run: string;
  /** The tool that this machine lacks for it, and its source; undefined if it can be installed. */
  lacks: () => Promise<string | undefined>;
  /** Downloads and builds what is not there yet. */
  install: () => Promise<void>;
  /** Undefined where it is not installed. Nothing is downloaded. */
  program: () => Promise<Program | undefined>;
}>;

const run = promisify(execFile);

async function runIn(cwd: string, command: string, args: readonly string[], options: ExecFileOptions = {}) {
  mkdirSync(cwd, { recursive: true });
  await run(command, args, { cwd, maxBuffer: 2 ** 26, ...options });
}

/** The version that a file pins. */
function pinnedIn(file: string, pattern: RegExp): string {
  const [, version] = pattern.exec(readFileSync(join(HERE, file), "utf8")) ?? [];
  if (version === undefined) throw new Error(`${file} pins no version`);
  return version;
}

const STORY_IN_JAVASCRIPT = join(HERE, "javascript/story.ts");

const javascript: Sdk = {
  name: "JavaScript",
  version: pinnedIn("../../../../package.json", /"svix": "(.+)"/),
  run: "javascript",
  lacks: async () => undefined,
  install: async () => {},
  program: async () => ({ command: process.execPath, args: [STORY_IN_JAVASCRIPT] }),
};

const VERSION_1 = "1.99.1";
const javascript1Folder = join(CACHE, `javascript-${VERSION_1}`);

const javascript1: Sdk = {
  name: "JavaScript",
  version: VERSION_1,
  run: "javascript-1",
  lacks: () => lacking("npm, which comes with Node", "npm", ["--version"]),
  install: async () => {
    const args = ["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--prefix", "."];
    await runIn(javascript1Folder, "npm", [...args, `svix@${VERSION_1}`]);
  },
  program: async () => {
    const SVIX_SDK = join(javascript1Folder, "node_modules/svix");
    if (!existsSync(SVIX_SDK)) return undefined;
    return { command: process.execPath, args: [STORY_IN_JAVASCRIPT], env: { SVIX_SDK } };
  },
};

const pythonVersion = pinnedIn("python/requirements.txt", /^svix==(.+)$/m);
const pythonFolder = join(CACHE, `python-${pythonVersion}`);
const pythonInFolder = join(pythonFolder, "bin/python");
const HAS_SVIX = `import importlib.metadata as m; exit(m.version("svix") != "${pythonVersion}")`;

const python: Sdk = {
  name: "Python",
  version: pythonVersion,
  run: "python",
  lacks: () =>
    lacking("python3 with venv (python.org, or the packages python3 and python3-venv)", "python3", [
      ...["-c", "import venv, ensurepip"],
    ]),
  install: async () => {
    await runIn(CACHE, "python3", ["-m", "venv", pythonFolder]);
    const args = ["-m", "pip", "install", "--quiet", "-r", join(HERE, "python/requirements.txt")];
    await runIn(CACHE, pythonInFolder, args);
  },
  program: async () => {
    for (const command of [pythonInFolder, "python3"])
      if ((await lacking("svix", command, ["-c", HAS_SVIX])) === undefined)
        return { command, args: [join(HERE, "python/story.py")] };
    return undefined;
  },
};

const goVersion = pinnedIn("go/go.mod", /svix-webhooks v(\S+)/);
const builtByGo = join(CACHE, `go-${goVersion}/story`);

const go: Sdk = {
  name: "Go",
  version: goVersion,
  run: "go",
  lacks: () => lacking("go (go.dev/dl, or the package golang)", "go", ["version"]),
  install: () => runIn(join(HERE, "go"), "go", ["build", "-o", builtByGo, "."]),
  program: async () => (existsSync(builtByGo) ? { command: builtByGo, args: [] } : undefined),
};

const rustVersion = pinnedIn("rust/Cargo.toml", /^svix = "=(.+)"/m);
const rustFolder = join(CACHE, `rust-${rustVersion}`);
const builtByCargo = join(rustFolder, "target/debug/story");

const rust: Sdk = {
  name: "Rust",
  version: rustVersion,
  run: "rust",
  lacks: () => lacking("cargo (rustup.rs, or the package cargo)", "cargo", ["--version"]),
  install: async () => {
    // Cargo would write its lock file beside the sources.
    cpSync(join(HERE, "rust"), rustFolder, { recursive: true });
    await runIn(rustFolder, "cargo", ["build", "--quiet", "--target-dir", "target"]);
  },
  program: async () => (existsSync(builtByCargo) ? { command: builtByCargo, args: [] } : undefined),
};

const cli: Sdk = {
  name: "CLI",
  version: undefined,
  run: "cli",
  lacks: () =>
    lacking("svix (`cargo install --git https://github.com/svix/svix-webhooks svix-cli`)", "svix", [
      "version",
    ]),
  install: async () => {},
  program: async () => {
    const version = await run("svix", ["version"]).catch(() => undefined);
    if (version === undefined) return undefined;
    return { command: process.execPath, args: [join(HERE, "cli/story.ts")], version: version.stdout.trim() };
  },
};

export const sdks: readonly Sdk[] = [javascript, javascript1, python, go, rust, cli];
/** The SDKs that `npm test` runs if they are installed. */
export const interpreted: readonly Sdk[] = [javascript, python];
