/** Event types: those of the catalogue. The versions of a schema that the Svix API knows are one here. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { wholeDays } from "../../core/retention.ts";
import { newEventType } from "../../features/event-types/schema.ts";
import {
  deleteEventType,
  getEventTypes,
  replaceEventType,
  storedExactly,
} from "../../features/event-types/service.ts";
import { type EventType, findEventType } from "../../store/event-types.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { problem } from "../problems.ts";
import {
  bodyOf,
  flag,
  granted,
  listOf,
  optionalBoolean,
  orderedQuery,
  queryOf,
  refuse,
  refuseFields,
  refuseUnknown,
  unsupported,
  validated,
} from "./shapes.ts";

const LIST = "/api/v1/event-type";
const ONE = "/api/v1/event-type/:name";

export function registerSvixEventTypes(app: Hono<ApiEnv>): void {
  const body = jsonBody({ exactNumbers: true });

  app.post(LIST, requires("admin"), body, async (c) => {
    const input = await bodyOf(c, newType);
    const { name } = input;
    const { row } = await change(c, name, (before) => {
      // As in the Svix API, an archived type may be created again.
      if (before && before.archivedAt === null)
        refuse(problem(409, `There is an event type ${name} already`));
      return input;
    });
    return c.json(typeView(row), 201);
  });

  app.get(LIST, requires("read"), async (c) => {
    const query = queryOf(c, listQuery);
    const { limit, iterator: after, order, include_archived: archived = false, with_content: full } = query;
    const page = { archived, after, limit: limit + 1, descending: order === "descending" };
    const listed = granted(await getEventTypes(callerIn(c), page));
    const shown = listed.map((row) => typeView(row, full ?? false));
    return c.json(listOf(shown, limit, ({ name }) => name));
  });

  app.get(ONE, requires("read"), async (c) => c.json(typeView(await typeOf(c))));

  app.put(ONE, requires("admin"), body, async (c) => {
    const input = await bodyOf(c, typeInput);
    const { row, before } = await change(c, c.req.param("name"), () => input);
    return c.json(typeView(row), before ? 200 : 201);
  });

  app.patch(ONE, requires("admin"), body, async (c) => {
    const { row } = await changeKnown(c, await bodyOf(c, typeInput.partial()));
    return c.json(typeView(row));
  });

  app.delete(ONE, requires("admin"), async (c) => {
    const query = queryOf(c, z.object({ expunge: flag }));
    if (query.expunge) {
      const { name } = await typeOf(c);
      granted(await deleteEventType(callerIn(c), name));
    } else await changeKnown(c, { archived: true });
    return c.body(null, 204);
  });
}

const listQuery = z.object({ ...orderedQuery, include_archived: flag, with_content: flag });

const typeInput = z.object({
  description: z.string("expected a string"),
  archived: optionalBoolean,
  deprecated: optionalBoolean,
  schemas: z.record(z.string(), z.unknown(), "expected an object of schemas by their versions").nullish(),
  groupName: z.string("expected a string").nullish(),
  featureFlag: z.unknown().optional(),
  featureFlags: z.array(z.unknown(), "expected a list").nullish(),
});

const newType = typeInput.extend({ name: z.string("expected a string") });

type Input = { [K in keyof z.infer<typeof typeInput>]?: z.infer<typeof typeInput>[K] | undefined };

function refuseUnsupported({ deprecated, schemas, groupName, featureFlag, featureFlags }: Input): void {
  const versions = Object.keys(schemas ?? {}).length;
  refuseFields([
    deprecated && unsupported("deprecated", "false: a type can be archived"),
    groupName && unsupported("groupName", "none"),
    !!featureFlag && unsupported("featureFlag", "none: filter types by their names"),
    featureFlags?.length && unsupported("featureFlags", "none"),
    versions > 1 && unsupported("schemas", "one version: a type has one schema"),
  ]);
}

/** The number of times that a change is tried when others change the type meanwhile. */
const TRIES = 3;

type Changed = Readonly<{ row: EventType; before: EventType | undefined }>;

/**
 * Creates or replaces the type. Fields that the Svix API does not know, its example and whether it is validated, stay
 * as they were.
 * @param inputFor the new input, given the present type
 */
async function change(c: ApiContext, name: string, inputFor: (before: EventType | undefined) => Input) {
  for (let tries = 1; tries <= TRIES; tries++) {
    const before = await findEventType(c.get("services").db, name);
    const input = inputFor(before);
    refuseUnsupported(input);
    const fields = validated(newEventType, fieldsOf(input, before), NAMES);
    const made = await replaceEventType(callerIn(c), { name, fields, seen: before ?? null });
    if (made.kind !== "conflict") return { row: granted(made, NAMES), before };
  }
  return refuse(problem(409, "The event type is being changed by other requests at the same time"));
}

/** Changes the type that the path names: omitted fields stay. */
function changeKnown(c: ApiContext, input: Input): Promise<Changed> {
  const name = c.req.param("name") ?? "";
  return change(c, name, (before) => {
    if (before === undefined) return refuseUnknown("event type", name);
    const { description = before.description, archived = before.archivedAt !== null } = input;
    const { schemas = schemasOf(before) } = input;
    return { ...input, description: description ?? "", archived, schemas };
  });
}

const NAMES = { schema: "schemas" };

function fieldsOf(input: Input, before: EventType | undefined) {
  const [schema] = Object.values(input.schemas ?? {});
  return {
    description: input.description,
    archived: input.archived ?? false,
    ...(before && { retention_days: wholeDays(before.retentionDays) }),
    ...(schema !== undefined && { schema, ...keptOf(before) }),
  };
}

function keptOf(before: EventType | undefined) {
  if (before === undefined) return {};
  const example = storedExactly(before.example);
  return { validate: before.validates === 1, ...(example !== null && { example }) };
}

async function typeOf(c: ApiContext): Promise<EventType> {
  const name = c.req.param("name") ?? "";
  return (await findEventType(c.get("services").db, name)) ?? refuseUnknown("event type", name);
}

function schemasOf({ schema }: EventType): Record<string, unknown> | null {
  const value = storedExactly(schema);
  return value === null ? null : { "1": value };
}

function typeView(row: EventType, withSchemas = true) {
  return {
    name: row.name,
    description: row.description ?? "",
    archived: row.archivedAt !== null,
    deprecated: false,
    schemas: withSchemas ? schemasOf(row) : null,
    ...{ groupName: null, featureFlag: null, featureFlags: null },
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
