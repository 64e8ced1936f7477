/**
 * Changes a destination, and deletes it. Only what differs from the stored destination is sent to the API, so a form that
 * is saved as it is changes nothing, and secrets that are not shown stay.
 */

import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { FieldError, Refused } from "../../../core/result.ts";
import { MASK, ownHeaders } from "../../../delivery/authorization.ts";
import { type DestinationPreview, previewDestination } from "../../../features/destinations/preview.ts";
import { destinationDraft, destinationView } from "../../../features/destinations/schema.ts";
import {
  getDestination,
  removeDestination,
  updateDestination,
} from "../../../features/destinations/service.ts";
import { type Destination, ownBurstOf } from "../../../store/destination.ts";
import { isoTime } from "../../../time.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { FormNotice, formState } from "../../ui/fields.tsx";
import { destinationLabels } from "../../ui/form-fields.ts";
import { type Form, plural, textIn } from "../../ui/format.ts";
import { Ago, ButtonLink, Confirmation, Crumb, outcomeAt, Submit } from "../../ui/parts.tsx";
import { saveDestination, unreadable } from "../../ui/services.ts";
import { capitalized } from "../../ui/status-text.ts";
import { callService, callWith } from "../calls.ts";
import { DestinationFields } from "../components/destination-form.tsx";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { changesIn, destinationSettingsIn, errorsIn, inputFieldsOf } from "../destination-input.ts";
import {
  callerOnPage,
  callerWithinTenant,
  type DashboardContext,
  type DashboardEnv,
  mayCall,
} from "../session.ts";
import { formOptions } from "./new-destination.tsx";

const EDIT = "/dashboard/destinations/:id/edit";
const DELETE = "/dashboard/destinations/:id/delete";

export function registerEditDestination(app: Hono<DashboardEnv>): void {
  app.get(EDIT, (c) => withDestination(c, (row) => showForm(c, row, {})));

  app.post(EDIT, (c) =>
    withDestination(c, async (row) => {
      const typed = await c.req.parseBody();
      if (typed.action === "preview") return showPreview(c, row, typed);
      if (textIn(typed, "read_at") !== isoTime(row.updatedAt))
        return showForm(c, row, { typed, refused: CHANGED });
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

/** The visitor's destination of the address; another answer where there is none, or nothing may be changed. */
async function withDestination(
  c: DashboardContext,
  show: (row: Destination) => Response | Promise<Response>,
): Promise<Response> {
  const found = await getDestination(callerWithinTenant(c), c.req.param("id") ?? "");
  if (found.kind !== "ok") return showNotFound(c);
  return mayCall(c, updateDestination) ? show(found.value) : showReadOnly(c);
}

/** The times of a row and of a form differ: somebody else has changed it while the form was open. */
const CHANGED: Refused = {
  kind: "conflict",
  detail:
    "The destination was changed after you opened this form. Your input is below: check the destination, then save again to overwrite those changes",
};

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

type Filled = Readonly<{ typed?: Form; refused?: Refused; preview?: DestinationPreview }>;

async function showForm(c: DashboardContext, row: Destination, { typed, refused, preview }: Filled) {
  const view = destinationView(row);
  const values = typed ?? inputFieldsOf(view, ownBurstOf(row));
  const form = {
    ...formState({ ...values, kind: view.kind }, destinationLabels, refused),
    errors: errorsIn(values, refused?.errors ?? []),
  };
  const path = `/dashboard/destinations/${row.id}`;
  const options = {
    ...(await formOptions(c, row.tenant)),
    isNew: false,
    asksTenant: false,
    scheme: view.signature,
  };
  return showPage(
    c,
    { title: `Edit ${nameOf(row)}`, refused },
    <section class="narrow">
      <Crumb href={path}>{nameOf(row)}</Crumb>
      <h1>Edit destination</h1>
      <form class="stack" method="post" action={`${path}/edit`} noValidate>
        <input type="hidden" name="read_at" value={isoTime(row.updatedAt)} autocomplete="off" />
        <FormNotice form={form} />
        <DestinationFields form={form} options={options} preview={<PreviewPart preview={preview} />} />
        <div class="actions">
          <Submit>Save changes</Submit>
          <ButtonLink href={path}>Cancel</ButtonLink>
          <a class="danger" href={`${path}/delete`}>
            Delete the destination
          </a>
        </div>
      </form>
    </section>,
  );
}

/** Nothing is saved: the form is shown again, with what its event types, channels and filter take. */
async function showPreview(c: DashboardContext, row: Destination, typed: Form) {
  const { input, errors } = destinationSettingsIn({ ...typed, kind: destinationView(row).kind });
  const found = errors.filter(({ field }) => field === "filter");
  if (found.length > 0) return showForm(c, row, { typed, refused: unreadable(found) });
  const { event_types, channels, filter } = input;
  const draft = { event_types, channels, filter };
  const previewed = await callWith(c, destinationDraft, draft, (caller, settings) =>
    previewDestination(caller, { ...settings, id: row.id }),
  );
  if (previewed.kind !== "ok") return showForm(c, row, { typed, refused: previewed });
  return showForm(c, row, { typed, preview: previewed.value });
}

const PreviewPart: FC<{ preview: DestinationPreview | undefined }> = ({ preview }) => (
  <>
    <div class="actions">
      <button type="submit" name="action" value="preview">
        Try it on the last events
      </button>
      <span class="hint">Saves nothing.</span>
    </div>
    {preview && (
      <output class="stack">
        <p>{previewText(preview)}</p>
        {preview.events.length > 0 && (
          <ul class="log">
            {preview.events.map((event) => (
              <li>
                <Ago at={event.timestamp} />
                <span class="break">
                  <a href={`/dashboard/events/${event.event_id}`}>{event.type}</a>
                  <span class="soft">{` ${takenText(event)}`}</span>
                </span>
              </li>
            ))}
          </ul>
        )}
      </output>
    )}
  </>
);

function previewText({ events, taken }: DestinationPreview): string {
  if (events.length === 0) return "No events to try it on: the tenant has posted none recently.";
  return `Takes ${taken} of the last ${plural(events.length, "event")}.`;
}

const refusalTexts: Readonly<Record<string, string>> = {
  type: "its type is none of the event types",
  channel: "it has none of the channels",
  filter: "the filter does not hold",
  body: "it is not JSON, and the destination takes only JSON",
  corrupt: "what is stored of it is damaged",
  created_later: "the destination did not exist yet",
};

function takenText({ taken, reason }: DestinationPreview["events"][number]): string {
  const why = reason === null ? "" : (refusalTexts[reason] ?? reason.replaceAll("_", " "));
  if (!taken) return `not taken: ${why}`;
  return why === "" ? "taken" : `would be taken; ${why}`;
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
        "What has been delivered stays in the log of its event for as long as the event is kept.",
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
