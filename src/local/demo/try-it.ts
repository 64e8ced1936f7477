/** What to type next, with the ids and the key of the demo that is still running. */
import { whereabouts } from "../flags.ts";
import type { DemoStanding } from "./standing.ts";

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
