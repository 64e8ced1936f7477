/**
 * Operational events as the operational webhooks of Svix (https://docs.svix.com/incoming-webhooks-and-operational-webhooks):
 * `{type, data}` with the names and fields that receivers of those know. An event that has no counterpart there keeps its
 * own type and data.
 */

type Data = Readonly<Record<string, unknown>>;

/** The types of Svix that there are events for, each with the type of its event. */
export const svixOperational = {
  "endpoint.disabled": "destination.paused",
  "endpoint.enabled": "destination.resumed",
} as const;

const named = new Map<string, string>(
  Object.entries(svixOperational).map(([theirs, ours]) => [ours, theirs]),
);

/** The name that Svix has for the type of an operational event, else the type itself. */
export function svixTypeOf(type: string): string {
  return named.get(type) ?? type;
}

/** @param type any type: an operator may post events of its own to its tenant */
export function svixEventOf(type: string, data: unknown): Readonly<{ type: string; data: unknown }> {
  if (!named.has(type) || typeof data !== "object" || data === null) return { type, data };
  const { tenant, destination_id, reason } = data as Data;
  const about = { appId: tenant, endpointId: destination_id };
  const isDisabled = type === svixOperational["endpoint.disabled"];
  const trigger = reason === "manual" ? "manual" : "automatic";
  return { type: svixTypeOf(type), data: { ...about, ...(isDisabled && { trigger }) } };
}
