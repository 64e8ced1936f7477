/** Destinations as a test needs them: failing soon, tried again soon, open again soon. */
import type { Customer, Endpoint } from "./story.ts";

export type Made = Readonly<{ id: string; path: string }>;

const HOOK = "/hook";

/** One for all of the customer's events, at the endpoint. @param settings as the API takes them */
export async function newDestination(
  { api }: Customer,
  endpoint: Endpoint,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<Made> {
  const { id, secret } = await api.post<{ id: string; secret: string }>("/v1/destinations", {
    url: hookAt(endpoint),
    description: "Billing",
    ...settings,
  });
  endpoint.secrets.set(HOOK, secret);
  return { id, path: `/dashboard/destinations/${id}` };
}

export function hookAt({ url }: Endpoint): string {
  return `${url}${HOOK}`;
}

/** What arrived at it is signed with this from now on. */
export function expectSecret({ secrets }: Endpoint, secret: string): void {
  secrets.set(HOOK, secret);
}

/** Posts events; their ids. */
export async function postEvents({ api }: Customer, count: number): Promise<readonly string[]> {
  const events = Array.from({ length: count }, (_, n) => ({ type: "order.created", data: { order: n } }));
  const { events: accepted } = await api.post<{ events: { id: string }[] }>("/v1/events/batch", { events });
  return accepted.map(({ id }) => id);
}
