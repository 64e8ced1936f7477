/** Temporary files in memory. Imported by the configuration of tests, for all processes that they start. */
import { accessSync, constants, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "../../tools/process-groups.ts";

/** Where Linux has files in memory. */
const MEMORY = "/dev/shm";
/** The tests need a tenth of this; containers often have 64 MB. */
const ENOUGH_BYTES = 1 << 30;

export function hasRoomInMemory(): boolean {
  try {
    accessSync(MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ENOUGH_BYTES;
  } catch {
    return false;
  }
}

/** Removes the files of test runs that were killed before they could do it. */
function removeLeftBehind(): void {
  for (const name of readdirSync(MEMORY)) {
    const pid = /^breakwater-(\d+)-/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid)))
      rmSync(join(MEMORY, name), { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * The runtime waits for the disk after each write to a database or an object, which would take more time than the tests
 * themselves. No test simulates a power cut, and files in memory survive a killed process.
 */
export function keepTemporaryFilesInMemory(): void {
  if (process.env.TMPDIR !== undefined || !hasRoomInMemory()) return;
  removeLeftBehind();
  const directory = mkdtempSync(`${MEMORY}/breakwater-${process.pid}-`);
  process.env.TMPDIR = directory;
  process.once("exit", () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
}
