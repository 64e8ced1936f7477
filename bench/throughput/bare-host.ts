/** The process that the bare Worker runs in. */

import { serve, startRuntime } from "../../test/support/runtime.ts";
import { givenArgs } from "./processes.ts";

const [endpoints] = givenArgs<[endpoints: readonly string[]]>();

const options = {
  name: "bare",
  scriptPath: new URL("./bare-worker.js", import.meta.url).pathname,
  compatibilityDate: "2026-08-15",
  compatibilityFlags: ["global_fetch_strictly_public"],
  bindings: { ENDPOINTS: endpoints },
  d1Databases: { DB: "bare" },
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
