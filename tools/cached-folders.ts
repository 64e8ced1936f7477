/**
 * A cache, in node_modules/.cache, of folders that wrangler takes seconds to make and that depend on files alone. A
 * folder is made again when one of its files differs.
 */
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { projectRoot } from "./wrangler.ts";

const CACHE = join(projectRoot, "node_modules/.cache/folders");
/** A process that has found a folder copies it well within this time. */
const COPIED_MS = 3_600_000;
/** Times of files come from a clock that ticks every few milliseconds, and so may be behind. */
const TICK_MS = 100;

type Index = Readonly<{ files: readonly string[]; print: string }>;

/**
 * Copies the folder of that name into a directory.
 * @param make fills an empty directory, and returns the files and directories on which the folder depends; of a
 *   directory, only the names in it count
 */
export async function copyCached(
  directory: string,
  name: string,
  make: (directory: string) => Promise<readonly string[]>,
): Promise<void> {
  const index = indexOf(name);
  const known: Index | undefined = existsSync(index) ? JSON.parse(readFileSync(index, "utf8")) : undefined;
  if (known && printOf(known.files) === known.print && existsSync(folderOf(name, known.print))) {
    cpSync(folderOf(name, known.print), directory, { recursive: true });
    return;
  }
  mkdirSync(CACHE, { recursive: true });
  const made = mkdtempSync(join(CACHE, "new-"));
  try {
    // The clock of the file system, whose times are some milliseconds behind those of Date.now().
    const startedAt = statSync(made).mtimeMs;
    const files = await make(made);
    cpSync(made, directory, { recursive: true });
    // A file that was changed meanwhile may have been read before or after that.
    if (files.every((file) => statSync(file).mtimeMs < startedAt - TICK_MS)) keep(name, made, files);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

function keep(name: string, made: string, files: readonly string[]): void {
  const index: Index = { files, print: printOf(files) };
  for (const old of readdirSync(CACHE).filter((one) => one.startsWith(`${name}-`)))
    if (statSync(join(CACHE, old)).mtimeMs < Date.now() - COPIED_MS)
      rmSync(join(CACHE, old), { recursive: true, force: true });
  const folder = folderOf(name, index.print);
  // Another process may have made the same.
  if (!existsSync(folder)) renameSync(made, folder);
  const next = `${folder}.${process.pid}.json`;
  writeFileSync(next, JSON.stringify(index));
  renameSync(next, indexOf(name));
}

function folderOf(name: string, print: string): string {
  return join(CACHE, `${name}-${print}`);
}

function indexOf(name: string): string {
  return join(CACHE, `${name}.json`);
}

/** A hash of the names and contents of the files. */
function printOf(files: readonly string[]): string {
  const print = createHash("sha256");
  for (const file of files) print.update(`${file}\n`).update(contentOf(file)).update("\n");
  return print.digest("hex").slice(0, 32);
}

function contentOf(file: string): string | Buffer {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (!stat) return "";
  return stat.isDirectory() ? readdirSync(file).sort().join() : readFileSync(file);
}
