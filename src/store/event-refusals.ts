/** Why a destination does not take stored events, as it is or as it will be. Reads the bodies that decide it. */

import { bodyFormOf } from "../core/content.ts";
import { isJsonObject, parsedJson } from "../core/json-value.ts";
import { channelsInEffect, type Route, refusalOf, type refusals } from "../core/routing.ts";
import type { Databases } from "./databases.ts";
import type { Destination } from "./destination.ts";
import { eachBody, type ListedEvent } from "./event-list.ts";

/** The facts that decide whether a destination takes an event. */
export type Criteria = Omit<Route, "destination">;

export function criteriaOf({ eventTypes, channels, filter, body }: Destination): Criteria {
  const takesContent = bodyFormOf(body) === "data";
  return { types: eventTypes, channels: channelsInEffect(channels), filter, takesContent };
}

/** The part of an event that a route is compared with. */
export type ComparedEvent = Pick<
  ListedEvent,
  "id" | "type" | "channels" | "contentType" | "isErased" | "bundleBytes"
>;

/** Whether only an event's `data` decides whether a route takes it. */
export function isDataAsked(route: Criteria, event: ComparedEvent): boolean {
  if (route.filter === null || event.contentType !== undefined || event.isErased) return false;
  return refusalWithoutData({ ...route, filter: null }, event) === undefined;
}

function refusalWithoutData(route: Criteria, { type, channels, contentType }: ComparedEvent) {
  const isContent = contentType !== undefined;
  // A filter matches no non-JSON content. For other events it is applied later, to their data.
  const filter = isContent ? route.filter : null;
  return refusalOf({ ...route, filter }, { type, channels, isContent, data: () => undefined });
}

/** A filter cannot decide about erased or damaged content. */
type Refused = (typeof refusals)[number] | "corrupt" | "erased" | null;

/** Why a route does not take the events, by their ids; null if it does. */
export async function refusalsOf(
  databases: Databases,
  route: Criteria,
  events: readonly ComparedEvent[],
): Promise<ReadonlyMap<number, Refused>> {
  const refused = new Map<number, Refused>();
  for (const event of events) {
    const unknown = event.isErased && route.filter !== null ? "erased" : null;
    refused.set(event.id, refusalWithoutData(route, event) ?? unknown);
  }
  const asked = events.filter((event) => isDataAsked(route, event));
  // A missing event has been removed meanwhile.
  for (const { id } of asked) refused.set(id, "corrupt");
  await eachBody(databases, asked, ({ id, type, channels }, body) => {
    const data = body && parsedData(body);
    const refusal = data && refusalOf(route, { type, channels, data: () => data.value });
    refused.set(id, data ? (refusal ?? null) : "corrupt");
  });
  return refused;
}

/** The event's data; undefined when the body is not an envelope. */
function parsedData(body: Uint8Array): Readonly<{ value: unknown }> | undefined {
  const parsed = parsedJson(new TextDecoder().decode(body));
  return isJsonObject(parsed) ? { value: parsed.data } : undefined;
}
