/**
 * The story of the demo: five customers sign up, events are posted, one customer's owner gives up on it,
 * and everything that was accepted ends. Shown while it happens.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { whereabouts } from "../flags.ts";
import type { Receiver } from "../receiver.ts";
import type { ApiClient } from "../stack.ts";
import { EVENTS, fates, type Posted, postTraffic, QUIET_S } from "./scenario.ts";
import type { Screen } from "./screen.ts";
import {
  type CircuitSummary,
  type Customer,
  circuitSummaryOf,
  countOf,
  type DemoStanding,
  hasEnded,
  isSlow,
  readStandings,
  secondsTo,
} from "./state.ts";

const FRAME_MS = 500;
/** What has not ended by then never will: the demo says so. */
const LONGEST_MS = 100_000;
/** How long the customer that is gone keeps its events before its owner decides. */
const HESITATION_MS = 3_000;

export type Told = Readonly<{ standings: readonly DemoStanding[]; posted: readonly Posted[] }>;

export async function tellStory(api: ApiClient, receiver: Receiver, screen: Screen): Promise<Told> {
  const customers = await signUp(api, receiver);
  const posted: Posted[] = [];
  const startedAt = Date.now();
  const traffic = postTraffic(api, posted).then(() => deleteTheGone(api, customers));
  let standings: readonly DemoStanding[] = [];
  let failure: unknown;
  traffic.catch((error) => {
    failure = error;
  });
  for (;;) {
    if (failure) throw failure;
    standings = await readStandings(api, customers, posted, standings);
    const now = Date.now();
    screen.show({ standings, posted: posted.length, startedAt, now });
    const over = posted.length >= EVENTS && standings.every(hasEnded);
    if (over || now - startedAt > LONGEST_MS) return { standings, posted };
    await sleep(FRAME_MS);
  }
}

async function signUp(api: ApiClient, { url, secrets }: Receiver): Promise<Customer[]> {
  const customers: Customer[] = [];
  for (const fate of fates) {
    const path = `/${fate.name}`;
    const { id, secret } = await api.post<{ id: string; secret: string }>("/v1/destinations", {
      url: `${url}${path}`,
      description: fate.name,
      event_types: fate.eventTypes,
      ...fate.settings,
    });
    secrets.set(path, secret);
    customers.push({ id, path, fate });
  }
  return customers;
}

async function deleteTheGone(api: ApiClient, customers: readonly Customer[]): Promise<void> {
  await sleep(HESITATION_MS);
  for (const { id } of customers.filter(({ fate }) => fate.ends === "given up")) {
    await api.remove(`/v1/destinations/${id}`);
  }
}

// §§ One sentence on what is happening, for somebody who has never seen Breakwater.

/** Several things happen at once: each is told for so long. */
const TOLD_MS = 3_000;

export function storyLines(standings: readonly DemoStanding[], startedAt: number, now: number): string {
  if (standings.every(hasEnded)) return "Nothing is under way: every delivery has ended.";
  const told = standings.flatMap(
    (standing) => sentence(standing, circuitSummaryOf(standing, now), now) ?? [],
  );
  const turn = Math.floor((now - startedAt) / TOLD_MS);
  return told[turn % told.length] ?? "Every event is delivered as it comes; nothing waits.";
}

function sentence(standing: DemoStanding, door: CircuitSummary, now: number): string | undefined {
  const { name } = standing.customer.fate;
  const waiting = countOf(standing, "waiting");
  switch (door.kind) {
    case "circuit_open":
      return `${name} is failing: circuit open, one request probes it in ${secondsTo(door.until, now)} s; ${waiting} wait.`;
    case "probing":
      return `${name}: one request finds out whether it is back; ${waiting} wait.`;
    case "held":
      return `${name} said 429, Retry-After: ${QUIET_S}: nobody sends it anything for ${secondsTo(door.until, now)} s; ${waiting} wait.`;
    case "paused":
      return `${name} said 410 Gone: paused; its owner must decide about ${waiting} events.`;
    case "draining":
      return isSlow(door)
        ? `${name} is slow: never more than ${standing.customer.fate.settings.max_concurrency} at once; ${waiting} wait their turn.`
        : `${name} is back: ${waiting} that waited go out, one first, then more with each success.`;
    case "open":
    case "deleted":
      return undefined;
  }
}

// §§ What to type next, with the ids and the key of the demo that is still running.

export function tryItLines(
  url: string,
  key: string,
  standings: readonly DemoStanding[],
  eventId: string,
): string[] {
  const idOf = (name: string) => standings.find(({ customer }) => customer.fate.name === name)?.customer.id;
  const call = `curl -s -H "$KEY"`;
  const [billing, oldApp, storefront] = [idOf("billing"), idOf("old-app"), idOf("storefront")];
  return [
    "",
    "Breakwater is still up; Ctrl-C ends it.",
    whereabouts(url, key),
    "",
    "To try, in another terminal:",
    "",
    `BW=${url} KEY='authorization: Bearer ${key}'`,
    "",
    "# one of the events, and every delivery of it",
    `${call} $BW/v1/events/${eventId}`,
    "# what took billing so long: every attempt is in the log",
    `${call} "$BW/v1/deliveries?destination_id=${billing}&limit=3"`,
    "# what died, and why",
    `${call} "$BW/v1/deliveries?destination_id=${oldApp}&state=dead"`,
    "# an event of your own",
    `${call} --json '{"type":"order.created","data":{"hello":"world"}}' $BW/v1/events`,
    "# a destination paused by hand, and let go on",
    `${call} -X POST $BW/v1/destinations/${storefront}/pause`,
    `${call} -X POST $BW/v1/destinations/${storefront}/resume`,
    "",
  ];
}
