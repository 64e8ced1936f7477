/**
 * The catalogue of event types, for everyone who is signed in: authors of receivers find the form of their events here. Other
 * visitors see no page, because the names of a deployment's events may be confidential. The operator adds a type, changes,
 * archives and deletes it, and imports the webhooks of an OpenAPI document, after a preview.
 */
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { type ImportedType, importEventTypes, MAX_DOCUMENT } from "../../../features/event-types/import.ts";
import { type EventTypeView, type ImportAction, newEventType } from "../../../features/event-types/schema.ts";
import {
  deleteEventType,
  getEventType,
  getEventTypes,
  replaceEventType,
  typeView,
} from "../../../features/event-types/service.ts";
import type { EventType } from "../../../store/event-types.ts";
import { FoldedSchema, TypeExample } from "../../ui/event-parts.tsx";
import { FieldForm, formState, Inputs } from "../../ui/fields.tsx";
import {
  eventTypeFields,
  eventTypeImportFields,
  eventTypeSettings,
  readInputs,
  shownInputs,
} from "../../ui/form-fields.ts";
import { addressOf, type Form, plural, textIn } from "../../ui/format.ts";
import {
  ButtonLink,
  Card,
  Confirmation,
  Copyable,
  FaultList,
  LineTable,
  OutcomeNotice,
  Pager,
  Press,
  Section,
  StateLabel,
  Top,
} from "../../ui/parts.tsx";
import { changedMeanwhile, pageAfter, unreadable } from "../../ui/services.ts";
import { capitalized } from "../../ui/status-text.ts";
import { actAndReturn, showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { outcomeAt } from "../outcomes.ts";
import {
  callerOnPage,
  callService,
  callWith,
  type Dashboard,
  type DashboardContext,
  mayCall,
} from "../session.ts";

export const EVENT_TYPES = "/dashboard/event-types";
const ONE = `${EVENT_TYPES}/:name`;
const IMPORT = `${EVENT_TYPES}/import`;
/** A type has up to 32 KB of schema and example. */
const PAGE_SIZE = 20;

/** Encoded, a character takes up to three bytes. */
export const LARGEST_IMPORT = { path: IMPORT, bytes: 3 * MAX_DOCUMENT };

export function typePath(name: string, page: "edit" | "versions" | "archive" | "restore" | "delete"): string {
  return `${EVENT_TYPES}/${encodeURIComponent(name)}/${page}`;
}

const AddLinks: FC<{ form?: string }> = ({ form = "New event type" }) => (
  <div class="actions">
    <ButtonLink href={IMPORT}>Import</ButtonLink>
    <ButtonLink href={`${EVENT_TYPES}/new`}>{form}</ButtonLink>
  </div>
);

const TypeActions: FC<{ type: EventType }> = ({ type: { name, archivedAt } }) => {
  const change = archivedAt === null ? "archive" : "restore";
  const verb = capitalized(change);
  const link = (page: "edit" | "versions" | "delete", label: string, text: string, of = "button") => (
    <a class={of} href={typePath(name, page)} aria-label={label}>
      {text}
    </a>
  );
  return (
    <div class="actions">
      {link("edit", `Edit ${name}`, "Edit")}
      {link("versions", `Versions of ${name}`, "Versions")}
      <Press action={typePath(name, change)} label={verb} title={`${verb} ${name}`} />
      {link("delete", `Delete ${name}`, "Delete", "danger")}
    </div>
  );
};

/** @param props `place` makes ids, which a name might not be fit for */
const TypePanel: FC<{ type: EventType; place: number; mayEdit: boolean }> = ({ type, place, mayEdit }) => {
  const { name, description, example, schema, validates, version, archivedAt } = type;
  const labels = (
    <>
      {version > 1 && <StateLabel tone="quiet">{`Version ${version}`}</StateLabel>}
      {archivedAt !== null && <StateLabel tone="quiet">Archived</StateLabel>}
      {validates === 1 ? (
        <StateLabel tone="good">Validated</StateLabel>
      ) : (
        <StateLabel tone="quiet">Not validated</StateLabel>
      )}
    </>
  );
  return (
    <Card id={`type-${place}`} title={name} aside={labels}>
      {description !== null && <p class="break">{description}</p>}
      {validates === 1 && (
        <p class="small soft">Events whose data does not fit the JSON Schema are refused.</p>
      )}
      <TypeExample name={name} example={example} id={place} />
      <FoldedSchema name={name} schema={schema} id={place} of={name} />
      {mayEdit && <TypeActions type={type} />}
      {!mayEdit && version > 1 && (
        <p class="small">
          <a href={typePath(name, "versions")}>Versions</a>
        </p>
      )}
    </Card>
  );
};

/** With the command that adds the first one, for operators: tenants do not change the catalogue. */
function showEmpty(c: DashboardContext) {
  const { origin } = new URL(c.req.url);
  const command = `curl -X PUT ${origin}/v1/event-types/order.created \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"description": "An order has been placed.", "example": {"order": 42}}'`;
  const lede = (
    <>
      The catalogue lists event types and what their <code>data</code> contains. The operator of this
      deployment maintains it.
    </>
  );
  return showPage(
    c,
    { title: "Event types", place: "event-types" },
    <>
      <Top title="No event types yet" lede={lede} />
      {mayCall(c, replaceEventType) && (
        <Section id="first" title="Add the first one" aside={<AddLinks form="Use a form instead" />}>
          <Copyable id="create" label="The command that adds an event type" text={command} />
        </Section>
      )}
    </>,
  );
}

export function registerCatalogue(app: Dashboard): void {
  app.get(`${EVENT_TYPES}/new`, (c) => showForm(c, undefined, {}));

  app.post(`${EVENT_TYPES}/new`, async (c) => {
    const typed = await c.req.parseBody();
    const name = textIn(typed, "name") ?? "";
    // To replace a type is to edit it: a new one must not overwrite an existing description.
    const existing = name === "" ? undefined : await getEventType(callerOnPage(c), name);
    if (existing?.kind === "ok") return showForm(c, undefined, typed, unreadable([TAKEN(name)]));
    return save(c, undefined, name, typed);
  });

  app.get(`${ONE}/edit`, (c) =>
    withType(c, (type) => showForm(c, type, shownInputs(type, eventTypeSettings))),
  );

  app.post(`${ONE}/edit`, (c) =>
    withType(c, async (type, row) => {
      const typed = await c.req.parseBody();
      const changed = changedMeanwhile(typed, type.updated_at, "event type");
      return changed ? showForm(c, type, typed, changed) : save(c, type, type.name, typed, row);
    }),
  );

  for (const [verb, archived, outcome] of [
    ["archive", true, "type-archived"],
    ["restore", false, "type-restored"],
  ] as const)
    app.post(`${ONE}/${verb}`, (c) =>
      withType(c, async ({ name, version: _, created_at: __, updated_at: ___, ...settings }, row) => {
        const result = await replace(c, name, { ...settings, archived }, row);
        return result.kind === "ok"
          ? c.redirect(outcomeAt(EVENT_TYPES, outcome), 303)
          : showRefusal(c, result, EVENT_TYPES);
      }),
    );

  app.get(`${ONE}/delete`, (c) => withType(c, ({ name }) => showDeletion(c, name)));

  app.post(`${ONE}/delete`, (c) =>
    actAndReturn(c, (caller) => deleteEventType(caller, c.req.param("name")), EVENT_TYPES, "type-deleted"),
  );

  async function withType(
    c: DashboardContext,
    show: (type: EventTypeView, row: EventType) => Response | Promise<Response>,
  ) {
    if (!mayCall(c, replaceEventType)) return showReadOnly(c);
    const found = await getEventType(callerOnPage(c), c.req.param("name") ?? "");
    return found.kind === "ok" ? show(typeView(found.value), found.value) : showNotFound(c);
  }

  /** @param seen the type to replace; null for a new one */
  function replace(c: DashboardContext, name: string, input: unknown, seen: EventType | null) {
    return callWith(c, newEventType, input, (caller, fields) =>
      replaceEventType(caller, { name, fields, seen }),
    );
  }

  /** Removes empty fields. */
  async function save(
    c: DashboardContext,
    type: EventTypeView | undefined,
    name: string,
    typed: Form,
    seen: EventType | null = null,
  ) {
    const { input, errors } = readInputs(typed, eventTypeSettings);
    if (errors.length > 0) return showForm(c, type, typed, unreadable(errors));
    const result = await replace(c, name, input, seen);
    if (result.kind !== "ok") return showForm(c, type, typed, result);
    return c.redirect(outcomeAt(EVENT_TYPES, "type-saved"), 303);
  }

  app.get(IMPORT, (c) => showImport(c, { typed: {} }));

  app.post(IMPORT, async (c) => {
    if (!mayCall(c, replaceEventType)) return showReadOnly(c);
    const typed = await c.req.parseBody();
    const isDryRun = typed.action !== "import";
    const imported = await callService(c, importEventTypes, {
      document: textIn(typed, "document") ?? "",
      field: "document",
      isDryRun,
      replaces: typed.archive_others === "on",
    });
    if (imported.kind !== "ok") return showImport(c, { typed, refused: imported });
    return isDryRun
      ? showImport(c, { typed, plan: imported.value })
      : c.redirect(outcomeAt(EVENT_TYPES, "types-imported"), 303);
  });

  app.get(EVENT_TYPES, async (c) => {
    const mayEdit = mayCall(c, replaceEventType);
    const archived = mayEdit && c.req.query("archived") !== undefined;
    const listed = await pageAfter(
      c.req.query("after"),
      PAGE_SIZE,
      (page) => getEventTypes(callerOnPage(c), { archived, ...page }),
      ({ name }) => name,
    );
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const { rows, ...pager } = listed.value;
    if (rows.length === 0 && pager.isFirst) return showEmpty(c);
    const toggled = addressOf(EVENT_TYPES, { archived: archived ? undefined : "yes" });
    return showPage(
      c,
      { title: "Event types", place: "event-types" },
      <>
        <section>
          <div class="head">
            <h1>Event types</h1>
            {mayEdit && <AddLinks />}
          </div>
          <p class="lede">
            The names of event types, and what their <code>data</code> contains. Destinations subscribe to
            these names.
          </p>
        </section>
        <OutcomeNotice name={c.req.query("done")} />
        <section aria-label="Event types">
          {rows.length === 0 && <p class="empty">No further event types.</p>}
          {rows.map((type, i) => (
            <TypePanel type={type} place={i} mayEdit={mayEdit} />
          ))}
          <Pager path={EVENT_TYPES} query={{ archived: archived ? "yes" : undefined }} {...pager}>
            {mayEdit && <a href={toggled}>{archived ? "Hide archived types" : "Show archived types too"}</a>}
          </Pager>
        </section>
      </>,
    );
  });
}

const TAKEN = (name: string) => ({
  field: "name",
  fault: `is ${name}, which is in the catalogue`,
  expected: "a new name; to change that type, edit it",
});

function showForm(c: DashboardContext, type: EventTypeView | undefined, values: Form, refused?: Refused) {
  if (!mayCall(c, replaceEventType)) return showReadOnly(c);
  const form = formState(values, eventTypeFields, refused);
  const isNew = type === undefined;
  const names = Object.keys(isNew ? eventTypeFields : eventTypeSettings);
  const title = isNew ? "New event type" : `Edit ${type.name}`;
  return showPage(
    c,
    { title, place: "event-types", refused },
    <Top of="narrow" crumb={[EVENT_TYPES, "Event types"]} title={title}>
      <FieldForm
        form={form}
        action={isNew ? `${EVENT_TYPES}/new` : typePath(type.name, "edit")}
        submit="Save event type"
        hidden={{ read_at: type?.updated_at }}
        cancel={EVENT_TYPES}
      >
        <Inputs names={names.filter((name) => !isNew || name !== "archived")} />
      </FieldForm>
    </Top>,
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
      back={EVENT_TYPES}
    />,
  );
}

type Sent = Readonly<{ typed: Form; refused?: Refused; plan?: readonly ImportedType[] }>;

function showImport(c: DashboardContext, { typed, refused, plan }: Sent) {
  if (!mayCall(c, replaceEventType)) return showReadOnly(c);
  const form = formState(typed, eventTypeImportFields, refused);
  const lede = (
    <>
      The webhooks of an OpenAPI document become event types: all of them or none. A changed schema is
      published as the next version where its operation has <code>x-breakwater-conversion</code>.
    </>
  );
  return showPage(
    c,
    { title: "Import event types", place: "event-types", refused },
    <Top crumb={[EVENT_TYPES, "Event types"]} title="Import event types" lede={lede}>
      <FieldForm
        form={form}
        action={`${IMPORT}#plan`}
        actions={[
          ["try", "Show what it would do"],
          ["import", "Import", "main"],
        ]}
      >
        <Inputs names={Object.keys(eventTypeImportFields)} />
      </FieldForm>
      {plan && <Plan plan={plan} />}
    </Top>,
  );
}

const actionTexts: Readonly<Record<ImportAction, string>> = {
  create: "Created",
  change: "Changed in place",
  publish: "Next version published",
  archive: "Archived",
  keep: "Unchanged",
  refuse: "Refused",
};

const Plan: FC<{ plan: readonly ImportedType[] }> = ({ plan }) => {
  const refused = plan.filter(({ action }) => action === "refuse");
  const faults = refused.flatMap(({ name, errors }) =>
    errors.map(({ fault, expected }) => [name, `${fault}; expected ${expected}`] as const),
  );
  return (
    <div class="stack" id="plan">
      {refused.length > 0 ? (
        <p class="notice tone-bad">
          Nothing would be imported: {plural(refused.length, "type")} would be refused.
        </p>
      ) : (
        <p class="notice tone-good">Nothing is changed yet. The import would do this:</p>
      )}
      <LineTable
        rows={plan}
        columns={[
          ["Event type", "main", ({ name }) => name, true],
          ["Import", "", ({ action }) => actionTexts[action]],
          ["Version", "num", ({ version }) => version ?? "–"],
        ]}
      />
      <FaultList faults={faults} />
    </div>
  );
};
