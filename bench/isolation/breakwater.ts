/** Breakwater runs as one instance for all phases. The destination with the backlog is paused outside of its phase. */
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { breakwater } from "../throughput/breakwater.ts";
import { KEY } from "../throughput/contender.ts";
import { customerWith, type Fault, HEALTHY, troubles } from "./faults.ts";
import {
  type PhasedContender,
  postBacklog,
  type Ready,
  reachAll,
  type Setup,
  warmUp,
} from "./phased-contender.ts";

export async function phasedBreakwater(setup: Setup): Promise<PhasedContender> {
  const running = await breakwater.start(setup.customers.urls);
  const api = apiClient(running.url, KEY);
  const ids = await destinationIds(api, setup.customers.urls);
  const call = (customer: number, what: "pause" | "resume") =>
    api.post(`/v1/destinations/${ids[customer]}/${what}`, {});

  async function ready(trouble: Fault, round: number): Promise<Ready> {
    const customer = customerWith(trouble, round);
    if (trouble.waiting > 0) await call(customer, "resume");
    return { running, end: async () => void (await call(customer, "pause")) };
  }

  await warmUp(running, setup);
  for (const trouble of troubles.filter(({ waiting }) => waiting > 0)) {
    await call(customerWith(trouble, 0), "pause");
    await postBacklog(running, setup, trouble);
  }
  // Once these events have arrived, the whole backlog before them waits.
  await reachAll(running, setup, HEALTHY);
  return { contender: breakwater, ready, stop: running.stop };
}

type Page = Readonly<{
  data: readonly Readonly<{ id: string; url: string }>[];
  next_cursor: string | null;
}>;

/** The ids of the destinations with these URLs, in their order. */
async function destinationIds(api: ApiClient, urls: readonly string[]): Promise<readonly string[]> {
  const idOf = new Map<string, string>();
  let cursor = "";
  do {
    const page = await api.get<Page>(`/v1/destinations?limit=100${cursor}`);
    for (const { id, url } of page.data) idOf.set(url, id);
    cursor = page.next_cursor ? `&cursor=${page.next_cursor}` : "";
  } while (cursor);
  return urls.map((url) => idOf.get(url) ?? "");
}
