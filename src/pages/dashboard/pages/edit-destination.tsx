/**
 * Creates a destination, and shows a new signing secret the only time that it can be shown; changes a destination, and deletes
 * it. A form sends only what differs from the stored destination, so one that is saved as it is changes
 * nothing, and secrets that are not shown stay.
 */

import { OPERATOR } from "../../../core/principal.ts";
import type { FieldError, Refused } from "../../../core/result.ts";
import { MASK, ownHeaders } from "../../../delivery/authorization.ts";
import { type DestinationPreview, previewDestination } from "../../../features/destinations/preview.ts";
import {
  destinationDraft,
  destinationView,
  type ShownSecret,
} from "../../../features/destinations/schema.ts";
import {
  createDestination,
  getDestination,
  removeDestination,
  updateDestination,
} from "../../../features/destinations/service.ts";
import { newTokenId } from "../../../secrets/tokens.ts";
import { type Destination, ownBurstOf } from "../../../store/destination.ts";
import { listTypeNames } from "../../../store/event-types.ts";
import { isoTime } from "../../../time.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { ActionButtons, FieldForm, formState } from "../../ui/fields.tsx";
import { FilterPreview } from "../../ui/filter-preview.tsx";
import { destinationLabels } from "../../ui/form-fields.ts";
import { type Form, textIn } from "../../ui/format.ts";
import { Confirmation, Top } from "../../ui/parts.tsx";
import { SecretPage } from "../../ui/secret-page.tsx";
import {
  addDestination,
  changedMeanwhile,
  readAtIn,
  saveDestination,
  unreadable,
} from "../../ui/services.ts";
import { capitalized } from "../../ui/status-text.ts";
import { DestinationFields } from "../components/destination-form.tsx";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import {
  changesIn,
  destinationSettingsIn,
  errorsIn,
  inputFieldsOf,
  newDestinationIn,
} from "../destination-input.ts";
import { outcomeAt } from "../outcomes.ts";
import {
  callerOnPage,
  callerWithinTenant,
  callService,
  callWith,
  type Dashboard,
  type DashboardContext,
  mayCall,
  mayNameTenant,
} from "../session.ts";

const NEW = "/dashboard/destinations/new";
const EDIT = "/dashboard/destinations/:id/edit";
const DELETE = "/dashboard/destinations/:id/delete";

export function registerDestinationForms(app: Dashboard): void {
  app.get(NEW, (c) => (mayCall(c, createDestination) ? showNewForm(c, {}) : showReadOnly(c)));

  app.post(NEW, async (c) => {
    const form = await c.req.parseBody();
    const { input, errors } = newDestinationIn(form);
    if (errors.length > 0) return showNewForm(c, form, unreadable(errors));
    const typed = { input, key: textIn(form, "form"), requestUrl: c.req.url };
    const created = await addDestination(callerOnPage(c), typed);
    if (created.kind === "ok") return showNewSecret(c, created.value, "created");
    const { existing } = created;
    return existing === undefined
      ? showNewForm(c, form, created)
      : c.redirect(outcomeAt(`/dashboard/destinations/${existing}`, "created-before"), 303);
  });

  app.get(EDIT, (c) => withDestination(c, (row) => showForm(c, row, {})));

  app.post(EDIT, (c) =>
    withDestination(c, async (row) => {
      const typed = await c.req.parseBody();
      if (typed.action === "preview") return showPreview(c, row, typed);
      const changed = changedMeanwhile(typed, isoTime(row.updatedAt), "destination");
      if (changed) return showForm(c, row, { typed, refused: changed });
      const changes = changesIn(typed, destinationView(row), ownBurstOf(row));
      const { input, errors } = await withOwnHeaders(c, row, changes);
      if (errors.length > 0) return showForm(c, row, { typed, refused: unreadable(errors) });
      const back = `/dashboard/destinations/${row.id}`;
      if (Object.keys(input).length === 0) return c.redirect(outcomeAt(back, "unchanged"), 303);
      const updated = await saveDestination(callerOnPage(c), { id: row.id, input, requestUrl: c.req.url });
      if (updated.kind !== "ok") return showForm(c, row, { typed, refused: updated });
      return c.redirect(outcomeAt(back, "changed"), 303);
    }),
  );

  app.get(DELETE, (c) => withDestination(c, (row) => showDeletion(c, row)));

  app.post(DELETE, async (c) => {
    const id = c.req.param("id");
    const removed = await callService(c, removeDestination, id);
    if (removed.kind !== "ok") return showRefusal(c, removed, `/dashboard/destinations/${id}`);
    return c.redirect(outcomeAt("/dashboard", "deleted"), 303);
  });
}

/** Event types that the form suggests; the others can be typed. */
const MOST_SUGGESTED = 100;

/** Facts that the form of a destination depends on besides the destination. */
async function formOptions(c: DashboardContext, tenant: string | undefined) {
  const { db, config } = c.get("services");
  return {
    isForOperators: c.get("visitor").principal.tenant === undefined,
    allowsHttp: config.allowPrivateDestinations,
    types: await listTypeNames(db, MOST_SUGGESTED),
    mayHaveTemplate: tenant === undefined || tenant === OPERATOR,
  };
}

async function showNewForm(c: DashboardContext, typed: Form, refused?: Refused) {
  const {
    tenant: chosen,
    principal: { tenant },
  } = c.get("visitor");
  const options = { ...(await formOptions(c, tenant)), isNew: true, asksTenant: mayNameTenant(c) };
  const values = refused ? typed : { sign_standard: "on", tenant: chosen };
  const form = {
    ...formState(values, destinationLabels, refused),
    errors: errorsIn(values, refused?.errors ?? []),
  };
  return showPage(
    c,
    { title: "New destination", refused },
    <Top of="narrow" crumb={["/dashboard", "Overview"]} title="New destination">
      <FieldForm
        form={form}
        action={NEW}
        noValidate
        hidden={{ form: textIn(typed, "form") ?? newTokenId() }}
        submit="Create destination"
      >
        <DestinationFields options={options} />
      </FieldForm>
    </Top>,
  );
}

export function showNewSecret(
  c: DashboardContext,
  made: Readonly<{ row: Destination; shown: ShownSecret }>,
  what: "created" | "rotated",
) {
  return showPage(c, { title: "Signing secret" }, <SecretPage {...made} what={what} />);
}

/** The visitor's destination of the address; another answer if there is none, or nothing may be changed. */
async function withDestination(
  c: DashboardContext,
  show: (row: Destination) => Response | Promise<Response>,
): Promise<Response> {
  const found = await getDestination(callerWithinTenant(c), c.req.param("id") ?? "");
  if (found.kind !== "ok") return showNotFound(c);
  return mayCall(c, updateDestination) ? show(found.value) : showReadOnly(c);
}

/** The values of headers that were left masked, as they are stored: the API replaces all headers at once. */
async function withOwnHeaders(c: DashboardContext, row: Destination, changes: ReturnType<typeof changesIn>) {
  const { input, errors } = changes;
  const given = (input.headers ?? {}) as Readonly<Record<string, string>>;
  if (!Object.values(given).includes(MASK)) return changes;
  const own = await ownHeaders(c.get("services").vault, row).catch(() => undefined);
  if (own === undefined) return { input, errors: [...errors, UNREADABLE_HEADERS] };
  const kept = Object.entries(given).map(([name, value]) => [
    name,
    value === MASK ? (own[name] ?? MASK) : value,
  ]);
  return { input: { ...input, headers: Object.fromEntries(kept) }, errors };
}

const UNREADABLE_HEADERS: FieldError = {
  field: "headers",
  fault: "cannot be read at the moment",
  expected: "all values once more in place of ***",
};

type Filled = Readonly<{
  typed?: Form;
  /** When the destination was read that the form began with; by default it is the present one. */
  readAt?: string | undefined;
  refused?: Refused;
  preview?: DestinationPreview;
}>;

async function showForm(c: DashboardContext, row: Destination, { typed, readAt, refused, preview }: Filled) {
  const view = destinationView(row);
  const values = typed ?? inputFieldsOf(view, ownBurstOf(row));
  const form = {
    ...formState({ ...values, kind: view.kind }, destinationLabels, refused),
    errors: errorsIn(values, refused?.errors ?? []),
  };
  const path = `/dashboard/destinations/${row.id}`;
  const tried = (
    <>
      <div class="actions">
        <ActionButtons of={[["preview", "Try it on the last events"]]} />
        <span class="hint">Saves nothing.</span>
      </div>
      {preview && <FilterPreview preview={preview} />}
    </>
  );
  const options = {
    ...(await formOptions(c, row.tenant)),
    isNew: false,
    asksTenant: false,
    scheme: view.signature,
  };
  return showPage(
    c,
    { title: `Edit ${nameOf(row)}`, refused },
    <Top of="narrow" crumb={[path, nameOf(row)]} title="Edit destination">
      <FieldForm
        form={form}
        action={`${path}/edit`}
        noValidate
        hidden={{ read_at: readAt ?? isoTime(row.updatedAt) }}
        submit="Save changes"
        cancel={path}
        aside={
          <a class="danger" href={`${path}/delete`}>
            Delete the destination
          </a>
        }
      >
        <DestinationFields options={options} preview={tried} />
      </FieldForm>
    </Top>,
  );
}

/** Nothing is saved: the form is shown again, with the events that its types, channels and filter take. */
async function showPreview(c: DashboardContext, row: Destination, typed: Form) {
  const { input, errors } = destinationSettingsIn({ ...typed, kind: destinationView(row).kind });
  const found = errors.filter(({ field }) => field === "filter");
  const readAt = readAtIn(typed);
  if (found.length > 0) return showForm(c, row, { typed, readAt, refused: unreadable(found) });
  const { event_types, channels, filter } = input;
  const draft = { event_types, channels, filter };
  const previewed = await callWith(c, destinationDraft, draft, (caller, settings) =>
    previewDestination(caller, { ...settings, id: row.id }),
  );
  if (previewed.kind !== "ok") return showForm(c, row, { typed, readAt, refused: previewed });
  return showForm(c, row, { typed, readAt, preview: previewed.value });
}

function showDeletion(c: DashboardContext, row: Destination) {
  const path = `/dashboard/destinations/${row.id}`;
  return showPage(
    c,
    { title: `Delete ${nameOf(row)}` },
    <Confirmation
      title={`Delete ${nameOf(row)}?`}
      what={[
        "Deletion is final. The destination, its secret and its settings are gone at once.",
        "Deliveries that have not ended are cancelled: they are not sent, and cannot be replayed. A request that is on its way still arrives.",
        "What has been delivered stays in the log of its event for as long as the event is stored.",
        ...(row.status === "paused"
          ? []
          : ["To stop sending and keep the backlog, pause the destination instead."]),
      ].map(capitalized)}
      action={`${path}/delete`}
      verb="Delete the destination"
      back={path}
    />,
  );
}
