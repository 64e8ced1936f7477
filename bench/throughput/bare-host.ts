/** The process that a Worker without Breakwater's code runs in: the bare one, or the one with its duties. */
import { serve, startRuntime } from "../../test/support/runtime.ts";
import { givenArgs } from "./processes.ts";

const [endpoints, script] = givenArgs<[endpoints: readonly string[], script: string]>();

const objects = {
  GATE: { className: "Gate", useSQLite: true },
  INTAKE: { className: "Intake", useSQLite: true },
};
const options = {
  name: "bare",
  scriptPath: new URL(script, import.meta.url).pathname,
  compatibilityDate: "2026-08-15",
  compatibilityFlags: ["global_fetch_strictly_public"],
  bindings: { ENDPOINTS: endpoints },
  d1Databases: { DB: "bare" },
  ...(script === "duties-worker.js" && { durableObjects: objects }),
  queueProducers: { QUEUE: { queueName: "bare" } },
  queueConsumers: { bare: { maxBatchSize: 100, maxBatchTimeout: 1 } },
};
serve(
  await startRuntime(
    () => options,
    [
      "CREATE TABLE events (id INTEGER PRIMARY KEY, type TEXT NOT NULL, body TEXT NOT NULL)",
      "CREATE TABLE ends (id INTEGER PRIMARY KEY)",
    ],
  ),
);
