/** An input for each tool of the MCP server, made of the tenant's own objects. */
import { changingTools } from "../../src/http/mcp/changing.ts";
import { readingTools } from "../../src/http/mcp/reading.ts";
import { inputSchemas } from "../../src/http/mcp/schemas.ts";
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

const kinds: Readonly<Record<string, string>> = {
  action_id: "actions",
  delivery_id: "deliveries",
  delivery_ids: "deliveries",
  destination_id: "destinations",
  event_id: "events",
  replay_id: "replays",
};

/** The value of a field of this name among a tenant's objects; undefined if it takes none. */
export function thingFor(field: string, { tenant, ids }: Things): unknown {
  if (field === "tenant") return tenant;
  const id = ids[kinds[field] ?? ""];
  if (id === undefined && /_ids?$/.test(field)) throw new Error(`Teach tool-inputs.ts what ${field} names`);
  return field.endsWith("_ids") ? [id] : id;
}

const tools = [...readingTools, ...changingTools];

/** The fields that a tool takes and those that it requires, by its schema. */
export function toolFields(tool: string) {
  type Described = Readonly<{ properties?: object; required?: readonly string[] }>;
  const { properties = {}, required = [] } = (inputSchemas(tools).get(tool) ?? {}) as Described;
  return { all: Object.keys(properties), required };
}

export function inputFor(tool: string, things: Things): Readonly<Record<string, unknown>> {
  const more = others[tool]?.(things) ?? {};
  const needed = toolFields(tool).required.map((field) => [field, thingFor(field, things)]);
  const input: Readonly<Record<string, unknown>> = { ...Object.fromEntries(needed), ...more };
  const missing = Object.keys(input).filter((field) => input[field] === undefined);
  if (missing.length > 0) throw new Error(`Teach tool-inputs.ts which ${missing} ${tool} takes`);
  return input;
}
