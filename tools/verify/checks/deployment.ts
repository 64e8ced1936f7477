/** The deployment itself: its health, its tables, its cron, and how it treats strangers. */

import type { Health } from "../../../client/src/api.ts";
import type { Check } from "../check.ts";
import { judgeHeartbeat, judgeMigrations, msText } from "../judge.ts";

export const health: Check = {
  name: "health",
  expected: "/v1/health answers 200, ok",
  runsAlone: true,
  run: async ({ deployment }) => {
    const { status, json, tookMs } = await deployment.health();
    const found = (json as Partial<Health> | undefined)?.status;
    return { ok: status === 200 && found === "ok", seen: `${status}, ${found}, in ${msText(tookMs)}` };
  },
};

export const migrations: Check = {
  name: "migrations",
  expected: "every database has the latest migration that the code expects",
  runsAlone: true,
  run: async ({ deployment }) => {
    const { migration, databases = [] } = (await deployment.health()).json as Partial<Health>;
    return judgeMigrations(migration, databases);
  },
};

/** The cron fires every minute, and an isolate remembers the health for seconds. */
const NEXT_HEARTBEAT_MS = 150_000;

export const heartbeat: Check = {
  name: "heartbeat",
  expected: "the sweep runs once more, at most 120 s after the last time",
  run: async (run) => {
    const heartbeats: (number | null)[] = [];
    let age: number | undefined;
    await run.until(
      async () => {
        const { sweep } = (await run.deployment.health()).json as Partial<Health>;
        heartbeats.push(sweep ? Date.parse(sweep.heartbeat_at) : null);
        age = sweep?.age_s;
        return new Set(heartbeats.filter((at) => at !== null)).size > 1;
      },
      NEXT_HEARTBEAT_MS,
      2_000,
    );
    return judgeHeartbeat(heartbeats, age);
  },
};

/** Ten times what the binding allows one address in its period of ten seconds, because it counts approximately. */
const REQUESTS = 1_000;
const AT_ONCE = 20;

export const strangers: Check = {
  name: "strangers",
  expected: "made-up keys are answered 401, and 429 when there are many",
  run: async (run) => {
    const statuses = new Map<number, number>();
    const requestOnce = async () => {
      const authorization = "Bearer made-up";
      const { status } = await run.deployment.request("GET", "/v1/stats", undefined, { authorization });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    };
    for (let sent = 0; sent < REQUESTS && !statuses.has(429); sent += AT_ONCE) {
      run.throwIfInterrupted();
      await Promise.all(Array.from({ length: AT_ONCE }, requestOnce));
    }
    const seen = [...statuses].map(([status, count]) => `${count} × ${status}`).join(", ");
    return { ok: statuses.has(429) && [...statuses.keys()].every((one) => one === 401 || one === 429), seen };
  },
};
