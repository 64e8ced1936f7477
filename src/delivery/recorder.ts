/**
 * Recording dispositions: an invocation makes one write at a time, and what is reported while one is under way goes
 * together in the next. A write that fails is repeated, because it is safe to repeat.
 */
import { recordOutcomes } from "../db/deliveries.ts";
import type { StatusChange } from "../db/notifications.ts";
import type { DeliveryRow } from "../db/schema.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Disposition } from "./outcome.ts";

const TRIES = 3;
/** Before the second try, doubled before the third; each is shortened by up to half, so that invocations spread. */
const PAUSE_MS = 250;
/** No longer than a write takes: without it, whoever reports in that time waits for this write, and then for its own. */
const LINGER_MS = 10;

/** What is reported together, and written as a whole. */
type Entry = Readonly<{
  rows: readonly DeliveryRow[];
  /** Destinations to be paused. */
  gone: readonly string[];
  recorded: PromiseWithResolvers<readonly StatusChange[]>;
}>;

/** Of one invocation, which never has more than one write under way. */
export class Recorder {
  readonly #services: Services;
  #state: "idle" | "lingering" | "writing" = "idle";
  #gathered: Entry[] = [];

  constructor(services: Services) {
    this.#services = services;
  }

  /**
   * Resolves when the dispositions are in D1, with the pauses of destinations that are gone. Rejects when they cannot
   * be written. They are written at once, or with what is reported while another write is under way.
   * @param othersAreNear others of the same batch may report in a moment: worth a short wait, to share a write
   */
  report(dispositions: readonly Disposition[], othersAreNear = false): Promise<readonly StatusChange[]> {
    const entry = entryOf(dispositions);
    const isEmpty = entry.rows.length + entry.gone.length === 0;
    if (isEmpty) entry.recorded.resolve([]);
    else this.#gathered.push(entry);
    if (this.#state === "writing") return entry.recorded.promise;
    if (!othersAreNear) void this.#write();
    else if (this.#state === "idle" && !isEmpty) void this.#linger();
    return entry.recorded.promise;
  }

  async #linger(): Promise<void> {
    this.#state = "lingering";
    await this.#services.sleep(LINGER_MS);
    if (this.#state === "lingering") await this.#write();
  }

  async #write(): Promise<void> {
    this.#state = "writing";
    while (this.#gathered.length > 0) {
      const entries = this.#gathered.splice(0);
      // The same time for every repeat: the pauses of this write are found by it, whichever repeat has made them.
      await write(this.#services, entries, this.#services.now());
    }
    this.#state = "idle";
  }
}

/** For an invocation that makes one report. */
export function report(
  services: Services,
  dispositions: readonly Disposition[],
): Promise<readonly StatusChange[]> {
  return new Recorder(services).report(dispositions);
}

function entryOf(dispositions: readonly Disposition[]): Entry {
  const gone = dispositions
    .filter((disposition) => disposition.gone)
    .map(({ delivery }) => delivery.destination.id);
  return {
    rows: dispositions.flatMap(({ row }) => row ?? []),
    gone: [...new Set(gone)],
    recorded: Promise.withResolvers(),
  };
}

/** The last try is made with each entry by itself: an entry that D1 does not take keeps no other from being recorded. */
async function write(services: Services, entries: readonly Entry[], now: number, attempt = 1): Promise<void> {
  const rows = entries.flatMap((entry) => entry.rows);
  const gone = new Set(entries.flatMap((entry) => entry.gone));
  try {
    resolveAll(entries, await recordOutcomes(services, rows, [...gone], now));
  } catch (error) {
    services.log({ what: "record_failed", deliveries: rows.length, attempt, error: faultOf(error) });
    if (attempt === TRIES) return rejectAll(entries, error);
    await services.sleep(Math.round(PAUSE_MS * 2 ** (attempt - 1) * (1 - services.random() / 2)));
    const portions = attempt + 1 < TRIES ? [entries] : entries.map((entry) => [entry]);
    for (const portion of portions) await write(services, portion, now, attempt + 1);
  }
}

/** Each pause goes to one of the entries that asked for it, to be published once. */
function resolveAll(entries: readonly Entry[], paused: readonly StatusChange[]): void {
  let left = paused;
  for (const { gone, recorded } of entries) {
    recorded.resolve(left.filter(({ id }) => gone.includes(id)));
    left = left.filter(({ id }) => !gone.includes(id));
  }
}

function rejectAll(entries: readonly Entry[], error: unknown): void {
  for (const { recorded } of entries) recorded.reject(error);
}
