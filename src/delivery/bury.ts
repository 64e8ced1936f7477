/**
 * The consumer of the platform's dead-letter queue: a delivery whose message has failed a hundred times
 * without an outcome ends as dead, with the reason `poison`, where a person can see it and send it again.
 */
import type { Services } from "../services.ts";
import { loadWork } from "../store/work.ts";
import { carriersOf, dispose } from "./carry.ts";
import { overRow } from "./outcome-rows.ts";
import { report } from "./report.ts";
import { tellDead } from "./tell-dead.ts";

export async function bury(services: Services, batch: MessageBatch): Promise<void> {
  const carriers = carriersOf(services, batch);
  const { works } = await loadWork(
    services,
    carriers.flatMap(({ parts }) => parts),
  );
  const now = services.now();
  const open = works.filter(({ row }) => (row?.endedAt ?? null) === null);
  const verdicts = open.map((work) => ({ work, row: overRow(work, "dead", "poison", now) }));
  await report(services, verdicts);
  tellDead(services, verdicts);
  for (const carrier of carriers) await dispose(services, carrier);
}
