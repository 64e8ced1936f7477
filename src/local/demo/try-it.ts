/** What to type next, with the ids and the key of the demo that is still running. */
import type { Standing } from "./standing.ts";

export function tryItLines(
  url: string,
  key: string,
  standings: readonly Standing[],
  eventId: string,
): string[] {
  const auth = `-H 'authorization: Bearer ${key}'`;
  const post = `curl -s ${auth} -H 'content-type: application/json'`;
  const ids = new Map(standings.map(({ customer }) => [customer.fate.name, customer.id]));
  const storefront = ids.get("storefront");
  return [
    "",
    `Breakwater is still up at ${url}; Ctrl-C ends it. To try:`,
    "",
    "# one of the events, and every delivery of it",
    `curl -s ${auth} ${url}/v1/events/${eventId}`,
    "# why billing's deliveries took as long as they did: every attempt is in the log",
    `curl -s ${auth} '${url}/v1/deliveries?destination_id=${ids.get("billing")}&limit=3'`,
    "# what died, and the reason",
    `curl -s ${auth} '${url}/v1/deliveries?destination_id=${ids.get("old-app")}&state=dead'`,
    "# an event of your own",
    `${post} -d '{"type":"order.created","data":{"hello":"world"}}' ${url}/v1/events`,
    "# a destination paused by hand, and let go on",
    `${post} -X POST ${url}/v1/destinations/${storefront}/pause`,
    `${post} -X POST ${url}/v1/destinations/${storefront}/resume`,
    "",
  ];
}
