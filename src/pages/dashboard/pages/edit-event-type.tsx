/** Changes the catalogue of event types: adds a type, changes it, archives it and deletes it. For the operator alone. */
import type { Hono } from "hono";
import type { Refused } from "../../../core/result.ts";
import { type EventTypeView, newEventType } from "../../../features/event-types/schema.ts";
import {
  deleteEventType,
  getEventType,
  replaceEventType,
  typeView,
} from "../../../features/event-types/service.ts";
import { AreaField, CheckField, FormNotice, formState, TextField } from "../../ui/fields.tsx";
import { eventTypeFields } from "../../ui/form-fields.ts";
import { type Form, jsonIn, numberIn, textIn } from "../../ui/format.ts";
import { ButtonLink, Confirmation, Crumb, outcomeAt, Submit } from "../../ui/parts.tsx";
import { unreadable } from "../../ui/services.ts";
import { callWith } from "../calls.ts";
import { actAndReturn, showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";

const LIST = "/dashboard/event-types";
const ONE = `${LIST}/:name`;

export function registerEditEventType(app: Hono<DashboardEnv>): void {
  app.get(`${LIST}/new`, (c) => showForm(c, undefined, {}));

  app.post(`${LIST}/new`, async (c) => {
    const typed = await c.req.parseBody();
    const name = textIn(typed, "name") ?? "";
    // To replace a type is to edit it: a new one must not overwrite what somebody has described.
    const existing = name === "" ? undefined : await getEventType(callerOnPage(c), name);
    if (existing?.kind === "ok") return showForm(c, undefined, typed, unreadable([TAKEN(name)]));
    return save(c, undefined, name, typed);
  });

  app.get(`${ONE}/edit`, (c) => withType(c, (type) => showForm(c, type, fieldsOf(type))));

  app.post(`${ONE}/edit`, (c) =>
    withType(c, async (type) => save(c, type, type.name, await c.req.parseBody())),
  );

  for (const [verb, archived, outcome] of [
    ["archive", true, "type-archived"],
    ["restore", false, "type-restored"],
  ] as const)
    app.post(`${ONE}/${verb}`, (c) =>
      withType(c, async ({ name, version: _, created_at: __, updated_at: ___, ...settings }) => {
        const result = await replace(c, name, { ...settings, archived });
        return result.kind === "ok"
          ? c.redirect(outcomeAt(LIST, outcome), 303)
          : showRefusal(c, result, LIST);
      }),
    );

  app.get(`${ONE}/delete`, (c) => withType(c, ({ name }) => showDeletion(c, name)));

  app.post(`${ONE}/delete`, (c) =>
    actAndReturn(c, (caller) => deleteEventType(caller, c.req.param("name")), LIST, "type-deleted"),
  );

  async function withType(c: DashboardContext, show: (type: EventTypeView) => Response | Promise<Response>) {
    if (!mayEditTypes(c)) return showReadOnly(c);
    const found = await getEventType(callerOnPage(c), c.req.param("name") ?? "");
    return found.kind === "ok" ? show(typeView(found.value)) : showNotFound(c);
  }

  function replace(c: DashboardContext, name: string, input: unknown) {
    return callWith(c, newEventType, input, (caller, fields) => replaceEventType(caller, { name, fields }));
  }

  async function save(c: DashboardContext, type: EventTypeView | undefined, name: string, typed: Form) {
    const { input, errors } = typeIn(typed);
    if (errors.length > 0) return showForm(c, type, typed, unreadable(errors));
    const result = await replace(c, name, input);
    if (result.kind !== "ok") return showForm(c, type, typed, result);
    return c.redirect(outcomeAt(LIST, "type-saved"), 303);
  }
}

/** The catalogue is the deployment's: a session of one tenant only reads it. */
export function mayEditTypes(c: DashboardContext): boolean {
  return mayCall(c, replaceEventType) && c.get("visitor").principal.tenant === undefined;
}

/** The address of a page about one type. */
export function typePath(name: string, page: "edit" | "versions" | "archive" | "restore" | "delete"): string {
  return `${LIST}/${encodeURIComponent(name)}/${page}`;
}

const TAKEN = (name: string) => ({
  field: "name",
  fault: `is ${name}, which is in the catalogue`,
  expected: "a new name; to change that type, edit it",
});

/** A type as the API takes it: what is empty is removed. */
export function typeIn(form: Form) {
  const { schema, example, errors } = schemaIn(form);
  const input = {
    description: textIn(form, "description") ?? null,
    schema,
    example,
    validate: form.validate === "on",
    archived: form.archived === "on",
    retention_days: numberIn(form, "retention_days"),
  };
  return { input, errors };
}

/** The schema and the example in a form, null where they are empty, and why one is no JSON. */
export function schemaIn(form: Form) {
  const [schema, example] = [jsonIn(form, "schema"), jsonIn(form, "example")];
  const errors = [
    { field: "schema", ...schema, expected: 'a JSON Schema, such as {"type": "object"}' },
    { field: "example", ...example, expected: "JSON" },
  ].flatMap(({ field, fault, expected }) => (fault === undefined ? [] : [{ field, fault, expected }]));
  return { schema: schema.value, example: example.value, errors };
}

/** The schema and the example as a form shows them. */
export function schemaTyped({ schema, example }: Readonly<{ schema?: unknown; example?: unknown }>) {
  const json = (value: unknown) =>
    value === null || value === undefined ? "" : JSON.stringify(value, null, 2);
  return { schema: json(schema), example: json(example) };
}

function fieldsOf(type: EventTypeView): Form {
  const { name, description, validate, archived, retention_days } = type;
  return {
    name,
    description,
    ...schemaTyped(type),
    validate: validate ? "on" : "",
    archived: archived ? "on" : "",
    retention_days,
  };
}

function showForm(c: DashboardContext, type: EventTypeView | undefined, values: Form, refused?: Refused) {
  if (!mayEditTypes(c)) return showReadOnly(c);
  const form = formState(values, eventTypeFields, refused);
  const title = type === undefined ? "New event type" : `Edit ${type.name}`;
  return showPage(
    c,
    { title, place: "event-types", refused },
    <section class="narrow">
      <Crumb href={LIST}>Event types</Crumb>
      <h1>{title}</h1>
      <form
        class="stack"
        method="post"
        action={type === undefined ? `${LIST}/new` : typePath(type.name, "edit")}
      >
        <FormNotice form={form} />
        {type === undefined && (
          <TextField form={form} name="name" required maxlength={128} placeholder="order.paid" />
        )}
        <TextField form={form} name="description" maxlength={1000} placeholder="An order has been paid." />
        <AreaField form={form} name="example" placeholder={'{"order": 42}'} hint="Must fit the schema." />
        <AreaField
          form={form}
          name="schema"
          placeholder={'{"type": "object", "required": ["order"]}'}
          hint="JSON Schema 2020-12."
        />
        <CheckField form={form} name="validate" />
        <TextField
          form={form}
          name="retention_days"
          type="number"
          hint="How long events of the type are kept. Empty uses the retention of the tenant or the deployment."
        />
        {type !== undefined && (
          <CheckField form={form} name="archived" hint="Not listed. Its events are still accepted." />
        )}
        <div class="actions">
          <Submit>Save event type</Submit>
          <ButtonLink href={LIST}>Cancel</ButtonLink>
        </div>
      </form>
    </section>,
  );
}

function showDeletion(c: DashboardContext, name: string) {
  return showPage(
    c,
    { title: `Delete ${name}`, place: "event-types" },
    <Confirmation
      title={`Delete ${name}?`}
      what={[
        "Its description, schema and example are deleted. Events of the type are still accepted, but no longer validated.",
        "Destinations that name the type still get its events.",
        "To keep its description and its validation, archive it instead.",
      ]}
      action={typePath(name, "delete")}
      verb="Delete the event type"
      back={LIST}
    />,
  );
}
