/** Breakwater: one instance for all phases. What waits is paused until its phase comes, and again after it. */
import { type ApiClient, apiClient } from "../../../src/local/stack.ts";
import { breakwater } from "../throughput/breakwater.ts";
import { KEY } from "../throughput/contender.ts";
import { pileUp, type Ready, reachAll, type Stage, type Subject, warmUp } from "./subject.ts";
import { HEALTHY, type Trouble, theOneWith, troubles } from "./troubles.ts";

export async function ourselves(stage: Stage): Promise<Subject> {
  const running = await breakwater.start(stage.customers.urls);
  const api = apiClient(running.url, KEY);
  const ids = await destinationsOf(api, stage.customers.urls);
  const tell = (customer: number, what: "pause" | "resume") =>
    api.post(`/v1/destinations/${ids[customer]}/${what}`, {});

  async function ready(trouble: Trouble, round: number): Promise<Ready> {
    const customer = theOneWith(trouble, round);
    if (trouble.waiting > 0) await tell(customer, "resume");
    return { running, end: async () => void (await tell(customer, "pause")) };
  }

  await warmUp(running, stage);
  for (const trouble of troubles.filter(({ waiting }) => waiting > 0)) {
    await tell(theOneWith(trouble, 0), "pause");
    await pileUp(running, stage, trouble);
  }
  // It comes after what has piled up: when it has arrived, all of that waits.
  await reachAll(running, stage, HEALTHY);
  return { contender: breakwater, ready, stop: running.stop };
}

type Page = Readonly<{
  data: readonly Readonly<{ id: string; url: string }>[];
  next_cursor: string | null;
}>;

/** The ids of the destinations with these URLs, in their order. */
async function destinationsOf(api: ApiClient, urls: readonly string[]): Promise<readonly string[]> {
  const idOf = new Map<string, string>();
  let cursor = "";
  do {
    const page = await api.get<Page>(`/v1/destinations?limit=100${cursor}`);
    for (const { id, url } of page.data) idOf.set(url, id);
    cursor = page.next_cursor ? `&cursor=${page.next_cursor}` : "";
  } while (cursor);
  return urls.map((url) => idOf.get(url) ?? "");
}
