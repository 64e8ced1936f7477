/**
 * The receivers of docs/receivers, each as its readers would run it: what it needs on this machine, and how it is built
 * and started.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { startRuntime } from "../support/runtime.ts";

const ROOT = new URL("../..", import.meta.url).pathname;
/** The folder of docs/receivers. */
export const RECEIVERS = join(ROOT, "docs/receivers");
/** The compiled files, cached between runs. */
const BUILT = join(ROOT, "node_modules/.cache/receivers");

/** The variables that a receiver is configured with: its secret, or the address of the public keys. */
export type Settings = Readonly<{ WEBHOOK_SECRET: string } | { WEBHOOK_JWKS: string }>;

export type RunningReceiver = Readonly<{
  url: string;
  /** Its output so far, line by line. */
  lines: readonly string[];
  stop: () => Promise<void>;
}>;

export type Language = Readonly<{
  name: string;
  file: string;
  /** The tool that this machine lacks for it; undefined when it can run. */
  lacks: () => Promise<string | undefined>;
  /** @param file another version of the receiver's file, under the same name in another folder */
  start: (settings: Settings, file?: string) => Promise<RunningReceiver>;
}>;

const run = promisify(execFile);

/** Undefined when the command succeeds; otherwise what is lacking. */
export async function lacking(
  what: string,
  command: string,
  args: readonly string[],
): Promise<string | undefined> {
  return run(command, args, { timeout: 120_000 }).then(
    () => undefined,
    () => what,
  );
}

type Started = Readonly<{ command: string; args: readonly string[]; env?: Readonly<Record<string, string>> }>;

/** Starts a process; resolves when one of its lines has its port. */
async function startProcess(
  { command, args, env = {} }: Started,
  settings: Settings,
  listening = /^listening on (\d+)$/,
): Promise<RunningReceiver> {
  const { WEBHOOK_SECRET: _, WEBHOOK_JWKS: __, ...inherited } = process.env;
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...inherited, PORT: "0", ...env, ...settings },
  });
  const exited = new Promise((resolve) => child.once("close", resolve));
  const lines: string[] = [];
  const port = await new Promise<string>((resolve, reject) => {
    const read = (line: string) => {
      lines.push(line);
      const [, found] = listening.exec(line) ?? [];
      if (found !== undefined) resolve(found);
    };
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", read);
    child.once("error", reject);
    child.once("close", () => reject(new Error(`${command} has ended: ${lines.join("\n")}`)));
  });
  return { url: `http://127.0.0.1:${port}`, lines, stop: () => ended(child, exited) };
}

async function ended(child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  child.kill("SIGKILL");
  await exited;
}

const fileOf = (path: string) => join(RECEIVERS, path);

const node: Language = {
  name: "Node",
  file: "node/receiver.mjs",
  lacks: async () => undefined,
  start: (settings, file = fileOf("node/receiver.mjs")) =>
    startProcess({ command: process.execPath, args: [file] }, settings),
};

const TABLE = "CREATE TABLE received (id TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID";

/** It starts a runtime each time. */
export const workers: Language = {
  name: "Workers",
  file: "workers/receiver.mjs",
  lacks: async () => undefined,
  start: async (settings, file = fileOf("workers/receiver.mjs")) => {
    const lines: string[] = [];
    const options = {
      name: "receiver",
      scriptPath: file,
      modulesRoot: dirname(file),
      compatibilityDate: "2026-08-01",
      bindings: settings,
      d1Databases: ["DB"],
      structuredWorkerdLogs: true,
      handleStructuredLogs: ({ message }: { message: string }) => lines.push(message),
    };
    const { url, stop } = await startRuntime(() => options, [TABLE]);
    return { url, lines, stop };
  },
};

const python: Language = {
  name: "Python",
  file: "python/receiver.py",
  lacks: () => lacking("python3 with cryptography", "python3", ["-c", "import cryptography"]),
  start: (settings, file = fileOf("python/receiver.py")) =>
    startProcess({ command: "python3", args: [file] }, settings),
};

const ruby: Language = {
  name: "Ruby",
  file: "ruby/receiver.rb",
  lacks: () => lacking("ruby with webrick", "ruby", ["-e", 'require "webrick"']),
  start: (settings, file = fileOf("ruby/receiver.rb")) =>
    startProcess({ command: "ruby", args: [file] }, settings),
};

const php: Language = {
  name: "PHP",
  file: "php/receiver.php",
  lacks: () => lacking("php with sodium", "php", ["-r", 'exit(extension_loaded("sodium") ? 0 : 1);']),
  start: async (settings, file = fileOf("php/receiver.php")) => {
    const state = mkdtempSync(join(tmpdir(), "breakwater-receiver-"));
    const args = ["-S", `127.0.0.1:${await freePort()}`, file];
    const env = { WEBHOOK_STATE: state };
    const { stop, ...running } = await startProcess(
      { command: "php", args, env },
      settings,
      /Development Server \(http:\/\/127\.0\.0\.1:(\d+)\) started/,
    );
    const leave = async () => {
      await stop();
      rmSync(state, { recursive: true, force: true });
    };
    return { ...running, stop: leave };
  },
};

/** PHP's server does not say which port it has chosen. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address ? address.port : 0;
}

const go: Language = {
  name: "Go",
  file: "go/receiver.go",
  lacks: () => lacking("go", "go", ["version"]),
  start: async (settings, file) => {
    const command = join(file === undefined ? join(BUILT, "go") : dirname(file), "receiver");
    await run("go", ["build", "-o", command, file ?? fileOf("go/receiver.go")]);
    return startProcess({ command, args: [] }, settings);
  },
};

const manifest = ["--locked", "--manifest-path", fileOf("rust/Cargo.toml")];

/**
 * The manifest of a crate beside the file, which cargo wants in a folder `src`. Its name is the program's, and another one: what is
 * built of the original at the same time is in the same folder.
 */
function manifestFor(file: string, crate: string): readonly string[] {
  const folder = dirname(file);
  mkdirSync(join(folder, "src"));
  copyFileSync(file, join(folder, "src/main.rs"));
  for (const name of ["Cargo.toml", "Cargo.lock"]) {
    const text = readFileSync(fileOf(`rust/${name}`), "utf8");
    writeFileSync(join(folder, name), text.replace('name = "receiver"', `name = "${crate}"`));
  }
  return ["--locked", "--manifest-path", join(folder, "Cargo.toml")];
}

const rust: Language = {
  name: "Rust",
  file: "rust/src/main.rs",
  lacks: () => lacking("cargo, or its crates", "cargo", ["fetch", ...manifest]),
  start: async (settings, file) => {
    const target = join(BUILT, "rust");
    const crate = file === undefined ? "receiver" : "mutant";
    await run("cargo", [
      "build",
      "--quiet",
      ...(file === undefined ? manifest : manifestFor(file, crate)),
      "--target-dir",
      target,
    ]);
    return startProcess({ command: join(target, "debug", crate), args: [] }, settings);
  },
};

const java: Language = {
  name: "Java",
  file: "java/Receiver.java",
  lacks: () => lacking("a JDK of version 17 or later", "javac", ["--release", "17", "-version"]),
  start: async (settings, file) => {
    const classes = file === undefined ? join(BUILT, "java") : dirname(file);
    await run("javac", ["--release", "17", "-d", classes, file ?? fileOf("java/Receiver.java")]);
    return startProcess({ command: "java", args: ["-cp", classes, "Receiver"] }, settings);
  },
};

export const interpreted: readonly Language[] = [node, workers, python, ruby, php];
/** These take some seconds to compile. */
export const compiled: readonly Language[] = [go, rust, java];
