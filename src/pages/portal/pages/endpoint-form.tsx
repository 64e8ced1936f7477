/** The form that adds an endpoint or changes one, and the page of its new signing secret. */
import type { FC } from "hono/jsx";
import { defaultLimits } from "../../../core/limits.ts";
import { type LimitedField, limitedFields, limitsWithin } from "../../../core/portal-access.ts";
import type { Refused } from "../../../core/result.ts";
import { isPolled, kindNameOf } from "../../../delivery/kinds/sending.ts";
import { visitorTexts } from "../../../features/destinations/fields.ts";
import { type DestinationPreview, previewDestination } from "../../../features/destinations/preview.ts";
import {
  destinationDraft,
  destinationView,
  type ShownSecret,
} from "../../../features/destinations/schema.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { newTokenId } from "../../../secrets/tokens.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import { type EventType, listEventTypes } from "../../../store/event-types.ts";
import { isoTime } from "../../../time.ts";
import { TypeExample, TypeSchema } from "../../ui/event-parts.tsx";
import { FieldForm, FormProvider, GroupField, Input, markOf, useForm } from "../../ui/fields.tsx";
import { FilterPreview } from "../../ui/filter-preview.tsx";
import { type Form, indented, jsonIn, listIn, numberIn, pairsIn, textIn } from "../../ui/format.ts";
import { CheckBox, Fold, Top } from "../../ui/parts.tsx";
import { SecretPage } from "../../ui/secret-page.tsx";
import {
  addDestination,
  attemptWith,
  changedMeanwhile,
  readAtIn,
  saveDestination,
  statusOfRefused,
} from "../../ui/services.ts";
import { portalOutcomeAt, showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import { usePortal } from "../look.ts";
import { aboveFaults, type FieldFaults, fieldFaultsOf, portalForm } from "../problems.ts";
import { callerInPortal, type Portal, type PortalContext } from "../session.ts";
import {
  defaultSigning,
  isOfSigning,
  SigningFields,
  signingFaults,
  signingIn,
  signingInputs,
  signingLabels,
} from "../signing-fields.tsx";
import { may } from "../surface.ts";
import { portalView } from "../view.ts";

const NEW = "/portal/endpoints/new";
const CHANGE = "/portal/endpoints/:id/change";
const PREVIEW = "/portal/endpoints/:id/preview";

export function registerEndpointForms(app: Portal): void {
  app.get(NEW, may("create_endpoint"), (c) => showForm(c, { typed: signingInputs(defaultSigning) }));

  app.post(NEW, may("create_endpoint"), async (c) => {
    const form: Form = await c.req.parseBody({ all: true });
    const { body, faults } = inputOf(c, form);
    if (Object.keys(faults).length > 0) return showForm(c, { typed: form, faults });
    const typed = { input: body, key: textIn(form, "form"), requestUrl: c.req.url };
    const created = await addDestination(callerInPortal(c), typed);
    if (created.kind === "ok") return showEndpointSecret(c, created.value, "created");
    if (created.existing !== undefined)
      return c.redirect(portalOutcomeAt(`/portal/endpoints/${created.existing}`, "created-before"), 303);
    return showAgain(c, form, created);
  });

  app.get(CHANGE, may("change_endpoint"), (c) =>
    withEndpoint(c, (row) => showForm(c, { typed: typedOf(row), row })),
  );

  app.post(CHANGE, may("change_endpoint"), (c) =>
    withEndpoint(c, async (row) => {
      const form: Form = await c.req.parseBody({ all: true });
      const { refused } = c.get("look").t;
      const again = (fault: string) => showForm(c, { typed: form, faults: { form: fault }, row });
      if (changedMeanwhile(form, isoTime(row.updatedAt), "endpoint")) return again(refused.changed);
      const { body, faults } = inputOf(c, form, row);
      if (Object.keys(faults).length > 0) return showForm(c, { typed: form, faults, row });
      const change = { id: row.id, input: body, requestUrl: c.req.url };
      const updated = await saveDestination(callerInPortal(c), change);
      const path = `/portal/endpoints/${row.id}`;
      if (updated.kind === "ok") return c.redirect(portalOutcomeAt(path, "saved"), 303);
      if (updated.kind === "conflict") return again(refused.conflict);
      if (updated.kind === "not_found") return showRefused(c, updated, path);
      return showAgain(c, form, updated, row);
    }),
  );

  // Nothing is saved: the form is shown again, with the events that its types and its filter take.
  app.post(PREVIEW, may("change_endpoint"), may("preview_endpoint"), (c) =>
    withEndpoint(c, async (row) => {
      const form: Form = await c.req.parseBody({ all: true });
      const { body, faults: all } = inputOf(c, form, row);
      const { event_types: types, filter } = all;
      const faults = { ...(types && { event_types: types }), ...(filter && { filter }) };
      const readAt = readAtIn(form);
      if (Object.keys(faults).length > 0) return showForm(c, { typed: form, faults, row, readAt });
      const typed = { event_types: body.event_types, filter: body.filter };
      const previewed = await attemptWith(callerInPortal(c), destinationDraft, typed, (caller, settings) =>
        previewDestination(caller, { ...settings, id: row.id }),
      );
      if (previewed.kind === "ok") return showForm(c, { typed: form, row, readAt, preview: previewed.value });
      return showAgain(c, form, previewed, row);
    }),
  );
}
async function withEndpoint(c: PortalContext, show: (row: Destination) => Promise<Response>) {
  const found = await getDestination(callerInPortal(c), c.req.param("id") ?? "");
  return found.kind === "ok" ? show(found.value) : showPortalNotFound(c);
}

function showAgain(c: PortalContext, typed: Form, refused: Refused, row?: Destination) {
  return showForm(c, {
    typed,
    faults: refusedFaults(c, typed, refused),
    row,
    readAt: readAtIn(typed),
    status: statusOfRefused(refused),
  });
}

/** The API counts the tenant's endpoints, and names the tenant when there are too many. */
function refusedFaults(c: PortalContext, form: Form, refused: Refused): FieldFaults {
  const look = c.get("look");
  const { errors = [] } = refused;
  if (errors.some(({ field }) => field === "tenant")) {
    const { max_endpoints: most } = c.get("visitor").access;
    return { form: most === null ? look.t.refused.general : look.t.list.full(look.f.count(most)) };
  }
  const others = errors.filter((error) => !isOfSigning(error));
  const faults = {
    ...fieldFaultsOf(look, { errors: others }),
    ...signingFaults(look, form, errors),
  };
  return Object.keys(faults).length > 0 ? faults : { form: look.t.refused.unavailable };
}

type TypedEndpoint = Readonly<{ body: Readonly<Record<string, unknown>>; faults: FieldFaults }>;

/** The form's input, as the API takes it, and faults that the API would not find. */
function inputOf(c: PortalContext, form: Form, row?: Destination): TypedEndpoint {
  const look = c.get("look");
  const { t } = look;
  const types = chosenTypes(form);
  const filter = jsonIn(form, "filter");
  const headers = pairsIn(form, "headers");
  const isBare = form.headers_remove === "on";
  const { access } = c.get("visitor");
  const asked = Object.fromEntries(limitedFields.map((name) => [name, numberIn(form, name)]));
  const { set, above } = limitsWithin(access, asked, row && limitsOf(row));
  const isHttps = row === undefined || kindNameOf(row.url) === "https";
  const faults = {
    ...(types === undefined && { event_types: t.form.chooseSome }),
    ...(filter.fault !== undefined && { filter: t.faults.filterJson }),
    ...(!isBare && headers.errors.length > 0 && { headers: t.faults.headerLines }),
    ...aboveFaults(look, above),
  };
  const url = textIn(form, "url") ?? "";
  const body = {
    ...(isHttps && url !== row?.url && { url }),
    ...Object.fromEntries(visitorTexts.map(({ name }) => [name, textIn(form, name) ?? null])),
    event_types: types,
    filter: filter.value,
    ...((isBare || headers.value !== null) && { headers: isBare ? null : headers.value }),
    ...signingIn(form, row ? destinationView(row) : defaultSigning),
    ...set,
  };
  return { body, faults };
}

/** Null: all types; undefined: none was chosen although some are required. */
function chosenTypes(form: Form): readonly string[] | null | undefined {
  if (form.which !== "some") return null;
  const checked = [form.type ?? []].flat().map(String);
  const chosen = [...new Set([...checked, ...(listIn(form, "other_types") ?? [])])];
  return chosen.length > 0 ? chosen : undefined;
}

/** The form of a stored endpoint. */
function typedOf(row: Destination): Form {
  const view = destinationView(row);
  const { event_types: types, filter } = view;
  const { max_concurrency, rate_per_second } = limitsOf(row);
  return {
    ...signingInputs(view),
    url: row.url,
    ...Object.fromEntries(visitorTexts.map(({ name }) => [name, view[name] ?? ""])),
    which: types === null ? "all" : "some",
    type: types ?? [],
    filter: filter === null ? "" : indented(JSON.stringify(filter)),
    max_concurrency: String(max_concurrency),
    rate_per_second: String(rate_per_second),
  };
}

/** The number of types that are shown with schema and example, which may have 32 KB. */
const MOST_TYPES = 100;

type Filled = Readonly<{
  typed: Form;
  faults?: FieldFaults;
  row?: Destination | undefined;
  /** When the endpoint was read that the form began with; by default it is the present one. */
  readAt?: string | undefined;
  preview?: DestinationPreview;
  status?: 422 | 500 | 503;
}>;

async function showForm(c: PortalContext, { typed, faults = {}, row, readAt, preview, status }: Filled) {
  const page = portalView(c);
  const { t, f, may } = page;
  const { db } = c.get("services");
  const types = await listEventTypes(db, { archived: false, after: undefined, limit: MOST_TYPES });
  const title = row === undefined ? t.list.add : t.form.editTitle;
  const labels = {
    ...t.form.labels,
    ...Object.fromEntries(visitorTexts.map(({ name }) => [name, t.fields[name].label])),
    ...t.limitNames,
    ...signingLabels(page),
    other_types: t.form.otherTypes,
  };
  const back = row === undefined ? "/portal" : `/portal/endpoints/${row.id}`;
  const form = portalForm(typed, labels, faults);
  const { access } = c.get("visitor");
  const mayTry = may("preview_endpoint") && row !== undefined;
  const headers = row === undefined ? [] : Object.keys(destinationView(row).headers);
  const isMoreOpen =
    preview !== undefined ||
    headers.length > 0 ||
    isMoreSet(form.values) ||
    form.errors.some(({ input = "form" }) => isOfMore(input));
  const most = (name: LimitedField) =>
    access[name] === null ? undefined : t.form.atMost(f.count(access[name]));
  return showPortalPage(
    c,
    { title, place: "endpoints" },
    <Top of="narrow" crumb={[back, row === undefined ? t.endpoints : t.test.back]} title={title}>
      <FieldForm
        form={form}
        action={row === undefined ? NEW : `${back}/change`}
        hidden={
          row === undefined
            ? { form: textIn(form.values, "form") ?? newTokenId() }
            : { read_at: readAt ?? isoTime(row.updatedAt) }
        }
        submit={row === undefined ? t.list.add : t.save}
        aside={
          <>
            <a href={back}>{t.cancel}</a>
            {mayTry && (
              <>
                <button
                  type="submit"
                  formaction={`${back}/preview#preview`}
                  formnovalidate
                  aria-describedby="preview-hint"
                >
                  {t.preview.try}
                </button>
                <span class="hint" id="preview-hint">
                  {t.preview.nothingSaved}
                </span>
              </>
            )}
          </>
        }
      >
        {row === undefined || kindNameOf(row.url) === "https" ? (
          <Input name="url" kind="url" required placeholder="https://example.com/webhooks" />
        ) : (
          <p class="soft">{isPolled(row) ? t.polling.target : t.endpoint.notHttps}</p>
        )}
        <TypeChoice types={types} />
        <Fold title={t.form.more} open={isMoreOpen}>
          <div class="stack">
            {visitorTexts.map(({ name, maxlength }) => (
              <Input name={name} hint={t.fields[name].hint} maxlength={maxlength} />
            ))}
            <Input kind="area" name="filter" class="short" hint={t.form.filterHint} />
            {preview && <FilterPreview preview={preview} />}
            <Input
              kind="area"
              name="headers"
              class="short"
              hint={headers.length > 0 ? t.form.headersKept(headers.join(", ")) : t.form.headersHint}
            />
            {headers.length > 0 && <CheckBox name="headers_remove" label={t.form.headersRemove} />}
            <SigningFields />
            <fieldset>
              <legend>{t.endpoint.limits}</legend>
              <p class="hint">{t.form.limitsHint}</p>
              <div class="fields">
                {limitedFields.map((name) => (
                  <Input name={name} inputmode="decimal" hint={most(name)} />
                ))}
              </div>
            </fieldset>
          </div>
        </Fold>
      </FieldForm>
    </Top>,
    status ?? (Object.keys(faults).length > 0 ? 422 : 200),
  );
}

/** Whether a field is folded away until it is needed. */
function isOfMore(field: string): boolean {
  return !["url", "event_types", "form"].includes(field);
}

/** Whether anything but the address and the event types differs from what a new endpoint has. */
function isMoreSet(typed: Form): boolean {
  const isTyped = (name: string) => textIn(typed, name) !== undefined;
  return (
    [...visitorTexts.map(({ name }) => name), "filter", "headers"].some(isTyped) ||
    limitedFields.some((name) => isTyped(name) && numberIn(typed, name) !== defaultLimits[name]) ||
    Object.keys(signingIn(typed, defaultSigning)).length > 0
  );
}

/** All types, or those that are chosen from the catalogue or typed. */
const TypeChoice: FC<{ types: readonly EventType[] }> = ({ types }) => {
  const { t } = usePortal();
  const form = useForm();
  const { type = [], which } = form.values;
  const known = new Set(types.map(({ name }) => name));
  const chosen = [type].flat().map(String);
  const others = [
    ...chosen.filter((name) => !known.has(name)),
    ...(listIn(form.values, "other_types") ?? []),
  ];
  const shown = { ...form, values: { other_types: others.join(" ") } };
  return (
    <GroupField name="event_types">
      <div class="stack">
        <CheckBox type="radio" name="which" value="all" checked={which !== "some"} label={t.form.allTypes} />
        <CheckBox
          type="radio"
          name="which"
          value="some"
          checked={which === "some"}
          label={t.form.someTypes}
          {...markOf(form, "event_types")}
        />
        {types.length > 0 && (
          <fieldset class="choices">
            <legend class="hidden">{t.eventTypes}</legend>
            {types.map((type, i) => (
              <TypeOption type={type} place={i} isChosen={chosen.includes(type.name)} />
            ))}
          </fieldset>
        )}
        <FormProvider value={shown}>
          <Input name="other_types" hint={t.form.otherTypesHint} />
        </FormProvider>
      </div>
    </GroupField>
  );
};

type OptionProps = Readonly<{ type: EventType; place: number; isChosen: boolean }>;

const TypeOption: FC<OptionProps> = ({ type, place, isChosen }) => {
  const { t } = usePortal();
  const { name, description, example, schema } = type;
  const title = (
    <>
      {t.form.details} <span class="hidden">{name}</span>
    </>
  );
  return (
    <div>
      <CheckBox name="type" value={name} checked={isChosen} label={<span class="break">{name}</span>} />
      {description !== null && <p class="hint break">{description}</p>}
      {(example !== null || schema !== null) && (
        <Fold title={title}>
          <TypeExample name={name} example={example} id={place} />
          <TypeSchema name={name} schema={schema} id={place} />
        </Fold>
      )}
    </div>
  );
};

export function showEndpointSecret(
  c: PortalContext,
  { row, shown }: Readonly<{ row: Destination; shown: ShownSecret }>,
  what: "created" | "rotated",
) {
  const { verify, secret } = c.get("look").t;
  return showPortalPage(
    c,
    { title: secret.title, place: "endpoints" },
    <SecretPage row={row} shown={shown} what={what}>
      <a href={`/portal/endpoints/${row.id}/verify`}>{verify.title}</a>
    </SecretPage>,
  );
}
