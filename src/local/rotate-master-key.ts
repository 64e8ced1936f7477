/**
 * `ADMIN_KEY=… npm run reseal -- https://breakwater.example`: seals every secret of a deployment with the
 * first of its `MASTER_KEYS`, so that the others can be taken away. May be broken off and run again.
 */
import { apiClient } from "./stack.ts";

type Step = Readonly<{ rotated: number; unreadable: readonly string[]; next_cursor: string | null }>;

const [url] = process.argv.slice(2);
const key = process.env.ADMIN_KEY;

async function reseal(at: string, adminKey: string): Promise<number> {
  const api = apiClient(at.replace(/\/+$/, ""), adminKey);
  let resealed = 0;
  const unreadable: string[] = [];
  for (let query = ""; ; ) {
    const step = await api.post<Step>(`/v1/rotate-master-key${query}`, {});
    resealed += step.rotated;
    unreadable.push(...step.unreadable);
    if (step.next_cursor === null) break;
    query = `?cursor=${step.next_cursor}`;
  }
  console.log(`Sealed anew: the secrets of ${resealed} destinations.`);
  if (unreadable.length === 0) return 0;
  console.error(`No key opens the secrets of ${unreadable.join(", ")}: rotate them.`);
  return 1;
}

try {
  if (!url || !key) throw new Error("Usage: ADMIN_KEY=… npm run reseal -- https://breakwater.example");
  process.exitCode = await reseal(url, key);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
