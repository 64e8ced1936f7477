/** The form that adds an endpoint or changes one, and the only page that shows a new signing secret. */
import type { Hono } from "hono";
import type { Child, FC } from "hono/jsx";
import { defaultLimits } from "../../../core/limits.ts";
import { allows, limitedFields, limitsWithin, type PortalAccess } from "../../../core/portal-access.ts";
import type { Refused } from "../../../core/result.ts";
import { isPolled, kindNameOf } from "../../../delivery/kinds/sending.ts";
import { visitorTexts } from "../../../features/destinations/fields.ts";
import { type DestinationPreview, previewDestination } from "../../../features/destinations/preview.ts";
import {
  destinationDraft,
  destinationView,
  type ShownSecret,
} from "../../../features/destinations/schema.ts";
import {
  createDestination,
  getDestination,
  updateDestination,
} from "../../../features/destinations/service.ts";
import { readChange, readCreation } from "../../../features/destinations/validate.ts";
import { newTokenId } from "../../../secrets/tokens.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import { type EventType, listEventTypes } from "../../../store/event-types.ts";
import { type Form, indented, jsonIn, listIn, numberIn, pairsIn, textIn } from "../../ui/format.ts";
import { ButtonLink, Crumb, Submit } from "../../ui/parts.tsx";
import { attemptRead, attemptWith, statusOfRefused } from "../../ui/services.ts";
import { FilterPreview } from "../filter-preview.tsx";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { Copy, PortalField, portalOutcomeAt } from "../parts.tsx";
import { aboveFaults, type FieldFaults, fieldFaultsOf } from "../problems.ts";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";
import {
  defaultSigning,
  isOfSigning,
  SigningFields,
  signingFaults,
  signingIn,
  signingInputs,
} from "../signing-fields.tsx";
import { TypeExample, TypeSchema } from "../type-example.tsx";

const NEW = "/portal/endpoints/new";
const CHANGE = "/portal/endpoints/:id/change";
const PREVIEW = "/portal/endpoints/:id/preview";

export function registerEndpointForms(app: Hono<PortalEnv>): void {
  app.get(NEW, may("create_endpoint"), (c) => showForm(c, { typed: signingInputs(defaultSigning) }));

  app.post(NEW, may("create_endpoint"), async (c) => {
    const form: Form = await c.req.parseBody({ all: true });
    const { body, faults } = inputOf(c, form);
    if (Object.keys(faults).length > 0) return showForm(c, { typed: form, faults });
    const caller = callerInPortal(c);
    const [key, requestUrl] = [textIn(form, "form"), c.req.url];
    const read = readCreation(caller.services, body, requestUrl);
    const created = await attemptRead(caller, read, (destination) =>
      createDestination(caller, { destination, key, requestUrl }),
    );
    if (created.kind === "ok") return showEndpointSecret(c, created.value, "created");
    if (created.existing !== undefined)
      return c.redirect(portalOutcomeAt(`/portal/endpoints/${created.existing}`, "created-before"), 303);
    return showForm(c, {
      typed: form,
      faults: refusedFaults(c, form, created),
      status: statusOfRefused(created),
    });
  });

  app.get(CHANGE, may("change_endpoint"), async (c) => {
    const found = await getDestination(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    return showForm(c, { typed: typedOf(found.value), row: found.value });
  });

  app.post(CHANGE, may("change_endpoint"), async (c) => {
    const caller = callerInPortal(c);
    const found = await getDestination(caller, c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const row = found.value;
    const form: Form = await c.req.parseBody({ all: true });
    const { body, faults } = inputOf(c, form, row);
    if (Object.keys(faults).length > 0) return showForm(c, { typed: form, faults, row });
    const requestUrl = c.req.url;
    const read = readChange(caller.services, body, requestUrl);
    const updated = await attemptRead(caller, read, (change) =>
      updateDestination(caller, { id: row.id, change, requestUrl }),
    );
    if (updated.kind === "ok")
      return c.redirect(portalOutcomeAt(`/portal/endpoints/${row.id}`, "saved"), 303);
    if (updated.kind === "not_found" || updated.kind === "conflict")
      return showRefused(c, updated, `/portal/endpoints/${row.id}`);
    const status = statusOfRefused(updated);
    return showForm(c, { typed: form, faults: refusedFaults(c, form, updated), row, status });
  });

  // Nothing is saved: the form is shown again, with what its event types and its filter take.
  app.post(PREVIEW, may("change_endpoint"), may("preview_endpoint"), async (c) => {
    const caller = callerInPortal(c);
    const found = await getDestination(caller, c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const row = found.value;
    const form: Form = await c.req.parseBody({ all: true });
    const { body, faults: all } = inputOf(c, form, row);
    const { event_types: types, filter } = all;
    const faults = { ...(types && { event_types: types }), ...(filter && { filter }) };
    if (Object.keys(faults).length > 0) return showForm(c, { typed: form, faults, row });
    const typed = { event_types: body.event_types, filter: body.filter };
    const previewed = await attemptWith(caller, destinationDraft, typed, (settings) =>
      previewDestination(caller, { ...settings, id: row.id }),
    );
    if (previewed.kind === "ok") return showForm(c, { typed: form, row, preview: previewed.value });
    const status = statusOfRefused(previewed);
    return showForm(c, { typed: form, faults: refusedFaults(c, form, previewed), row, status });
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

type Input = Readonly<{ body: Readonly<Record<string, unknown>>; faults: FieldFaults }>;

/** The form's input, as the API takes it, and faults of it that the API would not see so. */
function inputOf(c: PortalContext, form: Form, row?: Destination): Input {
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

/** Null: all types; undefined: none was chosen where some should be. */
function chosenTypes(form: Form): readonly string[] | null | undefined {
  if (form.which !== "some") return null;
  const checked = [form.type ?? []].flat().map(String);
  const chosen = [...new Set([...checked, ...(listIn(form, "other_types") ?? [])])];
  return chosen.length > 0 ? chosen : undefined;
}

/** The form of an endpoint as it is. */
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

/** A type has up to 32 KB of schema and example: so many are shown with these. */
const MOST_TYPES = 100;

type Filled = Readonly<{
  typed: Form;
  faults?: FieldFaults;
  row?: Destination;
  preview?: DestinationPreview;
  status?: 422 | 500 | 503;
}>;

async function showForm(c: PortalContext, { typed, faults = {}, row, preview, status }: Filled) {
  const look = c.get("look");
  const { db, now } = c.get("services");
  const types = await listEventTypes(db, { archived: false, after: undefined, limit: MOST_TYPES });
  const title = row === undefined ? look.t.form.newTitle : look.t.form.editTitle;
  return showPortalPage(
    c,
    { title, place: "endpoints" },
    <EndpointForm
      look={look}
      title={title}
      typed={typed}
      faults={faults}
      types={types}
      row={row}
      access={c.get("visitor").access}
      preview={preview && <FilterPreview look={look} preview={preview} now={now()} />}
    />,
    status ?? (Object.keys(faults).length > 0 ? 422 : 200),
  );
}

type Props = Readonly<{
  look: Look;
  title: string;
  typed: Form;
  faults: FieldFaults;
  types: readonly EventType[];
  row: Destination | undefined;
  access: PortalAccess;
  preview: Child;
}>;

const EndpointForm: FC<Props> = ({ look, title, typed, faults, types, row, access, preview }) => {
  const { t, f } = look;
  const value = (name: string) => String(typed[name] ?? "");
  const back = row === undefined ? "/portal" : `/portal/endpoints/${row.id}`;
  const isHttps = row === undefined || kindNameOf(row.url) === "https";
  const headers = row === undefined ? [] : Object.keys(destinationView(row).headers);
  const isMoreOpen =
    preview !== undefined || headers.length > 0 || isMoreSet(typed) || Object.keys(faults).some(isOfMore);
  const mayTry = row !== undefined && allows(access, "preview_endpoint");
  return (
    <section class="narrow">
      <Crumb href={back}>{row === undefined ? t.endpoint.crumb : t.test.back}</Crumb>
      <h1>{title}</h1>
      <form class="stack" method="post" action={row === undefined ? NEW : `${back}/change`}>
        {row === undefined && (
          <input type="hidden" name="form" value={textIn(typed, "form") ?? newTokenId()} autocomplete="off" />
        )}
        <FaultNotice look={look} faults={faults} />
        {isHttps ? (
          <PortalField
            name="url"
            label={t.form.labels.url}
            fault={faults.url}
            control={(attributes) => (
              <input
                type="url"
                required
                placeholder="https://example.com/webhooks"
                value={value("url")}
                {...attributes}
              />
            )}
          />
        ) : (
          <p class="soft">{isPolled(row) ? t.polling.target : t.endpoint.notHttps}</p>
        )}
        <TypeChoice look={look} typed={typed} types={types} fault={faults.event_types} />
        <details open={isMoreOpen}>
          <summary>{t.form.more}</summary>
          <div class="stack">
            {visitorTexts.map(({ name, maxlength }) => (
              <PortalField
                name={name}
                label={t.fields[name].label}
                hint={t.fields[name].hint}
                fault={faults[name]}
                control={(attributes) => <input maxlength={maxlength} value={value(name)} {...attributes} />}
              />
            ))}
            <PortalField
              name="filter"
              label={t.form.labels.filter}
              hint={t.form.filterHint}
              fault={faults.filter}
              control={(attributes) => (
                <textarea class="short" spellcheck={false} {...attributes}>
                  {value("filter")}
                </textarea>
              )}
            />
            {preview}
            <PortalField
              name="headers"
              label={t.form.labels.headers}
              hint={headers.length > 0 ? t.form.headersKept(headers.join(", ")) : t.form.headersHint}
              fault={faults.headers}
              control={(attributes) => (
                <textarea class="short" spellcheck={false} autocomplete="off" {...attributes}>
                  {value("headers")}
                </textarea>
              )}
            />
            {headers.length > 0 && (
              <label class="check">
                <input type="checkbox" name="headers_remove" autocomplete="off" />
                {t.form.headersRemove}
              </label>
            )}
            <SigningFields look={look} typed={typed} faults={faults} />
            <fieldset>
              <legend>{t.form.limits}</legend>
              <p class="hint">{t.form.limitsHint}</p>
              <div class="fields">
                {limitedFields.map((name) => {
                  const most = access[name];
                  return (
                    <PortalField
                      name={name}
                      label={t.limitNames[name]}
                      hint={most === null ? undefined : t.form.atMost(f.count(most))}
                      fault={faults[name]}
                      control={(attributes) => (
                        <input inputmode="decimal" value={value(name)} autocomplete="off" {...attributes} />
                      )}
                    />
                  );
                })}
              </div>
            </fieldset>
          </div>
        </details>
        <div class="actions">
          <Submit>{row === undefined ? t.form.add : t.form.save}</Submit>
          {mayTry && (
            <button
              type="submit"
              formaction={`${back}/preview#preview`}
              formnovalidate
              aria-describedby="preview-hint"
            >
              {t.preview.try}
            </button>
          )}
          <a href={back}>{t.cancel}</a>
        </div>
        {mayTry && (
          <p class="hint" id="preview-hint">
            {t.preview.nothingSaved}
          </p>
        )}
      </form>
    </section>
  );
};

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

/** Above a refused form: links to the fields at fault. */
const FaultNotice: FC<{ look: Look; faults: FieldFaults }> = ({ look: { t }, faults }) => {
  const names = Object.keys(faults).filter((name) => name !== "form");
  if (faults.form === undefined && names.length === 0) return null;
  const labels: Readonly<Record<string, string>> = {
    ...t.form.labels,
    ...t.limitNames,
    ...Object.fromEntries(visitorTexts.map(({ name }) => [name, t.fields[name].label])),
    body: t.signing.body,
    signature_forms: t.signing.forms,
  };
  return (
    <div class="notice tone-bad" role="alert">
      {faults.form !== undefined && <p>{faults.form}</p>}
      {names.length > 0 && (
        <p>
          {`${t.form.check} `}
          {names.map((name, i) => (
            <>
              {i > 0 && ", "}
              <a href={`#${name}`}>{labels[name] ?? t.signing.title}</a>
            </>
          ))}
        </p>
      )}
    </div>
  );
};

type ChoiceProps = Readonly<{
  look: Look;
  typed: Form;
  types: readonly EventType[];
  fault: string | undefined;
}>;

/** All types, or those that are chosen from the catalogue and typed besides. */
const TypeChoice: FC<ChoiceProps> = ({ look, typed, types, fault }) => {
  const { t } = look;
  const known = new Set(types.map(({ name }) => name));
  const chosen = [typed.type ?? []].flat().map(String);
  const others = [...chosen.filter((name) => !known.has(name)), ...(listIn(typed, "other_types") ?? [])];
  const isSome = typed.which === "some";
  return (
    <fieldset id="event_types" {...(fault !== undefined && { "aria-describedby": "event_types-fault" })}>
      <legend>{t.form.labels.event_types}</legend>
      <div class="stack">
        <label class="check">
          <input type="radio" name="which" value="all" checked={!isSome} />
          {t.form.allTypes}
        </label>
        <label class="check">
          <input type="radio" name="which" value="some" checked={isSome} />
          {t.form.someTypes}
        </label>
        {types.length > 0 && (
          <fieldset class="choices">
            <legend class="hidden">{t.eventTypes}</legend>
            {types.map((type, i) => (
              <TypeOption look={look} type={type} place={i} isChosen={chosen.includes(type.name)} />
            ))}
          </fieldset>
        )}
        <PortalField
          name="other_types"
          label={t.form.otherTypes}
          hint={t.form.otherTypesHint}
          control={(attributes) => (
            <input
              value={others.join(" ")}
              spellcheck={false}
              autocomplete="off"
              {...attributes}
              {...(fault !== undefined && { "aria-invalid": "true" })}
            />
          )}
        />
        {fault !== undefined && (
          <p class="fault" id="event_types-fault">
            {fault}
          </p>
        )}
      </div>
    </fieldset>
  );
};

type OptionProps = Readonly<{ look: Look; type: EventType; place: number; isChosen: boolean }>;

const TypeOption: FC<OptionProps> = ({ look, type, place, isChosen }) => {
  const { t } = look;
  const { name, description, example, schema } = type;
  return (
    <div>
      <label class="check">
        <input type="checkbox" name="type" value={name} checked={isChosen} />
        <span class="break">{name}</span>
      </label>
      {description !== null && <p class="hint break">{description}</p>}
      {(example !== null || schema !== null) && (
        <details>
          <summary>
            {t.form.details} <span class="hidden">{name}</span>
          </summary>
          <TypeExample look={look} type={type} place={place} />
          <TypeSchema look={look} type={type} place={place} />
        </details>
      )}
    </div>
  );
};

/** Not after a redirect, because the secret must appear in no address and must not be stored to be shown again. */
export function showEndpointSecret(
  c: PortalContext,
  { row: { id }, shown }: Readonly<{ row: Destination; shown: ShownSecret }>,
  what: "created" | "rotated",
) {
  const look = c.get("look");
  const { t } = look;
  const { secret, public_key: publicKey } = shown;
  const lede = what === "created" ? t.secret.createdLede : t.secret.rotatedLede;
  return showPortalPage(
    c,
    { title: t.secret.title, place: "endpoints" },
    <section class="narrow">
      <h1>{what === "created" ? t.secret.createdTitle : t.secret.rotatedTitle}</h1>
      <p class="lede">{secret === undefined ? t.secret.keyLede : lede}</p>
      <div class="stack">
        {secret !== undefined && <Copy look={look} id="secret" text={secret} label={t.secret.label} />}
        {publicKey !== undefined && (
          <Copy look={look} id="public-key" text={publicKey} label={t.secret.publicKey} />
        )}
        <div class="actions">
          <ButtonLink href={`/portal/endpoints/${id}`}>{t.secret.next}</ButtonLink>
          <a href={`/portal/endpoints/${id}/verify`}>{t.endpoint.verify}</a>
        </div>
      </div>
    </section>,
  );
}
