/** Destinations with all that is known of them at this moment: the row, the gate's view, what is not done. */
import { viewGate } from "../gate/gate-client.ts";
import type { GateView } from "../policy/gate-view.ts";
import type { Services } from "../services.ts";
import { type Backlog, backlogOf } from "../store/backlog.ts";
import { type Destination, gateSettingsOf } from "../store/destination-settings.ts";
import { type DoorWords, doorWords, type Tone } from "./door-words.ts";

export type Health = Readonly<{
  row: Destination;
  /** Undefined when the gate cannot be reached. */
  view: GateView | undefined;
  backlog: Backlog;
  words: DoorWords;
}>;

/** More than this is not counted: a person needs to know that it is much, not how much. */
export const COUNTED = 1000;

/** One look at each gate, and one query for all that waits. */
export async function healthOf(services: Services, rows: readonly Destination[]): Promise<readonly Health[]> {
  const ids = rows.map(({ id }) => id);
  const [backlogs, views] = await Promise.all([
    backlogOf(services, ids, COUNTED),
    Promise.all(rows.map((row) => viewGate(services, row.id, gateSettingsOf(row)))),
  ]);
  const now = services.now();
  return rows.map((row, i) => {
    const view = views[i];
    const { maxConcurrency } = gateSettingsOf(row);
    const words = doorWords(
      { status: row.status, statusReason: row.statusReason, maxConcurrency, view },
      now,
    );
    return { row, view, backlog: backlogs.get(row.id) ?? { waiting: 0, dead: 0 }, words };
  });
}

const urgency: Readonly<Record<Tone, number>> = { bad: 0, warn: 1, busy: 2, good: 3, quiet: 4 };

/** What needs a person first; among equals what has more waiting, then by URL. */
export function byUrgency(a: Health, b: Health): number {
  return (
    urgency[a.words.tone] - urgency[b.words.tone] ||
    b.backlog.waiting - a.backlog.waiting ||
    a.row.url.localeCompare(b.row.url)
  );
}

export function needsAttention({ words }: Health): boolean {
  return words.tone === "bad" || words.tone === "warn";
}
