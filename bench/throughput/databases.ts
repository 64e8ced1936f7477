/** Redis and Postgres for one run, in a temporary directory, with common settings. */
import { execFileSync, type SpawnOptions, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export type Database = Readonly<{ url: string; pid: number; stop: () => Promise<void> }>;

const READY_MS = 20_000;

/** The first of these paths that exists. */
function programOf(...paths: readonly string[]): string | undefined {
  return paths.find((path) => existsSync(path));
}

export const redisServer = () => programOf("/usr/bin/redis-server", "/usr/local/bin/redis-server");
export const postgresBin = () =>
  programOf("/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/15/bin");

/** Append-only file, flushed every second: Redis's own advice for data that matters. */
export async function startRedis(): Promise<Database> {
  const place = mkdtempSync(join(tmpdir(), "bench-redis-"));
  const port = await freePort();
  const args = ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", place, "--appendonly", "yes"];
  return running(redisServer() ?? "", [...args, "--save", "", "--logfile", join(place, "log")], port, {
    url: `redis://127.0.0.1:${port}`,
    place,
  });
}

/** Postgres with its defaults: every commit is flushed to the disk. It refuses to run as root. */
export async function startPostgres(): Promise<Database> {
  const bin = postgresBin() ?? "";
  const place = mkdtempSync(join(tmpdir(), "bench-postgres-"));
  const user = unprivileged();
  if (user) chownSync(place, user.uid, user.gid);
  const data = join(place, "data");
  execFileSync(join(bin, "initdb"), ["-D", data, "-U", "bench", "-A", "trust"], { ...user, stdio: "ignore" });
  const port = await freePort();
  const args = ["-D", data, "-p", `${port}`, "-h", "127.0.0.1", "-k", place];
  return running(join(bin, "postgres"), args, port, {
    url: `postgres://bench@127.0.0.1:${port}/postgres`,
    place,
    ...user,
  });
}

type Place = Readonly<{ url: string; place: string; uid?: number; gid?: number }>;

async function running(program: string, args: string[], port: number, at: Place): Promise<Database> {
  const { url, place, uid, gid } = at;
  const options: SpawnOptions = { stdio: "ignore", ...(uid !== undefined && { uid, gid }) };
  const child = spawn(program, args, options);
  const gone = new Promise((resolve) => child.once("exit", resolve));
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  await listening(port);
  const stop = async () => {
    child.kill("SIGINT");
    await gone;
    process.off("exit", kill);
    rmSync(place, { recursive: true, force: true });
  };
  return { url, pid: child.pid ?? 0, stop };
}

function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (flag: string) => Number(execFileSync("id", [flag, "postgres"]).toString());
  return { uid: idOf("-u"), gid: idOf("-g") };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

async function listening(port: number): Promise<void> {
  const deadline = Date.now() + READY_MS;
  while (Date.now() < deadline) {
    if (await answers(port)) return;
    await sleep(100);
  }
  throw new Error(`Nothing listens on port ${port}`);
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.end());
  });
}
