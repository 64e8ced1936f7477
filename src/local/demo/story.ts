/**
 * The story of the demo: five customers sign up, events are posted, one customer's owner gives up on it,
 * and everything that was accepted ends. Shown while it happens.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiClient } from "../api-client.ts";
import type { Receiver } from "../receiver.ts";
import { fates } from "./fates.ts";
import type { Screen } from "./screen.ts";
import { type Customer, hasEnded, readStandings, type DemoStanding } from "./standing.ts";
import { EVENTS, type Posted, postTraffic } from "./traffic.ts";

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
