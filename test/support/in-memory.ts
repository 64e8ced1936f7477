/** Temporary files in memory. Imported by the configuration of tests, for all processes that they start. */
import { accessSync, constants, mkdtempSync, rmSync, statfsSync } from "node:fs";

/** Where Linux keeps files in memory. */
const MEMORY = "/dev/shm";
/** The tests need a tenth of that; containers often have 64 MB. */
const ENOUGH_BYTES = 1 << 30;

function hasRoom(): boolean {
  try {
    accessSync(MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ENOUGH_BYTES;
  } catch {
    return false;
  }
}

/**
 * The runtime waits for the disk after each write to a database or an object, which takes more time than the tests themselves. No
 * test loses power, and what is in memory outlives a process that is killed.
 */
export function keepTemporaryFilesInMemory(): void {
  if (process.env.TMPDIR !== undefined || !hasRoom()) return;
  const directory = mkdtempSync(`${MEMORY}/breakwater-`);
  process.env.TMPDIR = directory;
  process.once("exit", () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
}
