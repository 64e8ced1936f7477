/** Runs the demo's scenario against a stack and shows it meanwhile, until every delivery has ended. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ReceiverServer } from "../receiver.ts";
import type { ApiClient } from "../stack.ts";
import { allEnded, type Customer, type Progress, readProgress } from "./progress.ts";
import { EVENTS, type Posted, postTraffic, profiles } from "./scenario.ts";
import type { Screen } from "./screen.ts";

const FRAME_MS = 500;
/** A delivery that has not ended by then is reported as a fault. */
const TIMEOUT_MS = 100_000;
/** After the last event, until the owner of the endpoint that is gone deletes its destination. */
const DELETE_AFTER_MS = 3_000;

export type DemoResult = Readonly<{ customers: readonly Progress[]; posted: readonly Posted[] }>;

export async function runScenario(api: ApiClient, receiver: ReceiverServer, screen: Screen) {
  const customers = await createDestinations(api, receiver);
  const posted: Posted[] = [];
  const startedAt = Date.now();
  const traffic = postTraffic(api, posted).then(() => deleteGone(api, customers));
  let progress: readonly Progress[] = [];
  let failure: unknown;
  traffic.catch((error) => {
    failure = error;
  });
  for (;;) {
    if (failure) throw failure;
    progress = await readProgress(api, customers, posted, progress);
    const now = Date.now();
    screen.show({ customers: progress, posted: posted.length, startedAt, now });
    const over = posted.length >= EVENTS && progress.every(allEnded);
    if (over || now - startedAt > TIMEOUT_MS) return { customers: progress, posted };
    await sleep(FRAME_MS);
  }
}

async function createDestinations(api: ApiClient, { url, secrets }: ReceiverServer): Promise<Customer[]> {
  const customers: Customer[] = [];
  for (const profile of profiles) {
    const path = `/${profile.name}`;
    const { id, secret } = await api.post<{ id: string; secret: string }>("/v1/destinations", {
      url: `${url}${path}`,
      description: profile.name,
      event_types: profile.eventTypes,
      ...profile.settings,
    });
    secrets.set(path, secret);
    customers.push({ id, path, profile });
  }
  return customers;
}

async function deleteGone(api: ApiClient, customers: readonly Customer[]): Promise<void> {
  await sleep(DELETE_AFTER_MS);
  for (const { id } of customers.filter(({ profile }) => profile.ends === "dead")) {
    await api.remove(`/v1/destinations/${id}`);
  }
}
