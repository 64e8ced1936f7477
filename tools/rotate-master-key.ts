/**
 * `BREAKWATER_KEY=… npm run rotate-master-key -- https://breakwater.example`: seals every secret of a deployment, headers included, with
 * the first of its `MASTER_KEYS`, so that the others can be removed. It can be interrupted and run again.
 */
import type { MasterKeyRotation } from "../client/src/api.ts";
import { reportFailure, UsageError } from "./flags.ts";
import { apiClient } from "./stack.ts";

const [url] = process.argv.slice(2);
const key = process.env.BREAKWATER_KEY;

async function rotate(): Promise<void> {
  if (!url || !key)
    throw new UsageError("Usage: BREAKWATER_KEY=… npm run rotate-master-key -- https://breakwater.example");
  const api = apiClient(url.replace(/\/+$/, ""), key);
  let rotated = 0;
  const unreadable: string[] = [];
  for (let query = ""; ; ) {
    const step = await api.post<MasterKeyRotation>(`/v1/rotate-master-key${query}`, {});
    rotated += step.rotated;
    unreadable.push(...step.unreadable);
    if (step.next_cursor === null) break;
    query = `?cursor=${step.next_cursor}`;
  }
  console.log(`Encrypted the secrets of ${rotated} destinations.`);
  if (unreadable.length > 0)
    throw new Error(
      `No key opens all secrets of ${unreadable.join(", ")}: rotate their secrets, or set their headers again.`,
    );
}

process.exitCode = await reportFailure(rotate);
