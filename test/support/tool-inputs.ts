/** An input that each tool of the MCP server takes, made of the tenant's own. */
import { NOW } from "./api.ts";
import type { Things } from "./operations.ts";

const hour = { since: new Date(NOW - 3_600_000).toISOString(), until: new Date(NOW).toISOString() };

/** Fields that a tool needs besides ids, by its name. */
const others: Readonly<Record<string, (things: Things) => object>> = {
  search: ({ ids }) => ({ q: ids.events }),
  start_replay: () => hour,
  set_limits: () => ({ max_concurrency: 3 }),
  set_filter: () => ({ event_types: ["order.*"] }),
  get_attempt: ({ ids }) => ({ at: ids.attempts }),
  preview_policy: () => ({ retry: { preset: "svix" } }),
};

/** The ids that a tool needs, by its name. */
const idFields: Readonly<Record<string, readonly string[]>> = {
  explain_delivery: ["delivery_id"],
  get_event: ["event_id"],
  get_attempt: ["delivery_id"],
  get_destination: ["destination_id"],
  destination_health: ["destination_id"],
  preview_filter: ["destination_id"],
  get_replay: ["replay_id"],
  get_action: ["action_id"],
  retry_deliveries: ["delivery_ids"],
  cancel_deliveries: ["delivery_ids"],
  start_replay: ["destination_id"],
  cancel_replay: ["replay_id"],
  pause_destination: ["destination_id"],
  resume_destination: ["destination_id"],
  set_limits: ["destination_id"],
  set_filter: ["destination_id"],
  rotate_secret: ["destination_id"],
  send_test_event: ["destination_id"],
};

const kinds: Readonly<Record<string, string>> = {
  action_id: "actions",
  delivery_id: "deliveries",
  delivery_ids: "deliveries",
  destination_id: "destinations",
  event_id: "events",
  replay_id: "replays",
};

/** What a field of this name takes of a tenant's things; undefined where it takes none. */
export function thingFor(field: string, { tenant, ids }: Things): unknown {
  if (field === "tenant") return tenant;
  const id = ids[kinds[field] ?? ""];
  return field.endsWith("_ids") ? [id] : id;
}

export function inputFor(tool: string, things: Things): object {
  const ids = (idFields[tool] ?? []).map((field) => [field, thingFor(field, things)]);
  return { ...Object.fromEntries(ids), ...others[tool]?.(things) };
}
