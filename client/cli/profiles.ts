/**
 * Profiles: the address of a deployment and an API key, in a file of the user's configuration folder that only the user
 * may read. A key comes from the environment, standard input or a prompt, and never from an argument: other users see those.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text as allOf } from "node:stream/consumers";
import { breakwaterClient } from "../src/breakwater.ts";
import { CommandLineError, type Connection } from "./command.ts";
import { remark } from "./output.ts";

type SavedProfile = Readonly<{ url: string; key: string }>;
type Profiles = Readonly<Record<string, SavedProfile>>;

/** There is no profile to use. */
export class NotSignedIn extends Error {}

const { env } = process;

export function profilesFile(): string {
  const home = homedir();
  const folders: Readonly<Record<string, string>> = {
    win32: env.APPDATA ?? join(home, "AppData", "Roaming"),
    darwin: join(home, "Library", "Application Support"),
  };
  const folder = env.XDG_CONFIG_HOME || folders[process.platform] || join(home, ".config");
  return join(folder, "breakwater", "profiles.json");
}

export function readProfiles(): Profiles {
  const file = profilesFile();
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
  if (process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0) {
    chmodSync(file, 0o600);
    remark(`${file} could be read by other users; its mode is now 600`);
  }
  try {
    return JSON.parse(text) as Profiles;
  } catch {
    throw new Error(`${file} is not JSON: correct it, or remove it and sign in again`);
  }
}

/** Replaces the file as a whole, so that it is never half written or readable by others. */
export function writeProfiles(profiles: Profiles): void {
  const file = profilesFile();
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

export function profileName(given: string | undefined): string {
  return given ?? (env.BREAKWATER_PROFILE || "default");
}

/** The deployment of a profile. $BREAKWATER_URL with $BREAKWATER_KEY is used before the profile, unless one is named. */
export function connectionOf(given: string | undefined): Connection {
  const { BREAKWATER_URL: url, BREAKWATER_KEY: key } = env;
  const name = profileName(given);
  const profiles = given === undefined && url && key ? { [name]: { url, key } } : readProfiles();
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile === undefined)
    throw new NotSignedIn(
      `There is no profile ${name}: sign in with \`breakwater login\`, or set BREAKWATER_URL and BREAKWATER_KEY`,
    );
  return { url: originOf(profile.url), api: breakwaterClient({ ...profile, key: checkedKey(profile.key) }) };
}

/**
 * Trims a key, and checks that a header takes it: the header's own error would contain the key.
 * @throws CommandLineError
 */
export function checkedKey(key: string): string {
  const trimmed = key.trim();
  if (!/^[\x21-\x7e]+$/.test(trimmed))
    throw new CommandLineError("The key has characters that a key cannot contain");
  return trimmed;
}

/**
 * The address of a deployment up to its host.
 * @throws CommandLineError
 */
export function originOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isLocal = parsed && ["localhost", "127.0.0.1", "[::1]"].includes(parsed.hostname);
  if (parsed?.protocol === "https:" || (isLocal && parsed.protocol === "http:")) return parsed.origin;
  throw new CommandLineError(`The address is ${url}; expected https://…, or http://localhost`);
}

/** A secret from the environment variable, from standard input, or typed without being shown. @throws CommandLineError */
export async function secretFrom(variable: string, prompt: string): Promise<string> {
  const given = env[variable] || (process.stdin.isTTY ? await typed(prompt) : await allOf(process.stdin));
  const secret = given.trim();
  if (secret === "") throw new CommandLineError(`${prompt}: set ${variable}, or write it to standard input`);
  return secret;
}

async function typed(prompt: string): Promise<string> {
  process.stderr.write(`${prompt}: `);
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    return await lines.question("");
  } finally {
    lines.close();
    process.stderr.write("\n");
  }
}
