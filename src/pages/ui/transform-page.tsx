/** The page of a transformation: its form, ready templates, a preview, its versions. */
import type { Context, Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import { conflict, type Refused } from "../../core/result.ts";
import { type ReadyTemplate, readyTemplate, readyTemplates } from "../../core/transform/ready.ts";
import { sendsAsIs } from "../../core/transform/versions.ts";
import { kindNameOf } from "../../delivery/kinds/sending.ts";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import { getTransformFaults } from "../../features/deliveries/service.ts";
import { shownSource } from "../../features/destinations/fields.ts";
import { updateDestination } from "../../features/destinations/service.ts";
import {
  getTransformVersions,
  previewTransform,
  restoreTransform,
  type TransformPreview,
  type TransformVersions,
} from "../../features/destinations/transforms.ts";
import { readChange } from "../../features/destinations/validate.ts";
import { getTypesWithExamples } from "../../features/event-types/service.ts";
import type { Caller } from "../../features/service.ts";
import type { Destination } from "../../store/destination.ts";
import { currentTransform } from "../../store/transforms.ts";
import { nameOf } from "./destination-table.tsx";
import { FieldForm, FormNotice, Input } from "./fields.tsx";
import { type Form, textIn } from "./format.ts";
import { usePage } from "./page.tsx";
import { Ago, Section, Top } from "./parts.tsx";
import { attempt, attemptRead } from "./services.ts";
import { formOf, type PageAnswer, pathsOf, type Surface } from "./surface.ts";
import {
  ReadyTemplates,
  type ShownSource,
  sourceTyped,
  TemplateFields,
  transformFormState,
  typedOfSource,
} from "./transform-form.tsx";
import { TransformDryRun, TransformFaults, VersionList } from "./transform-view.tsx";

/** The source in effect; null: none, or one that cannot be read. */
function sourceNow(row: Destination): ShownSource {
  const current = currentTransform(row);
  return current ? shownSource(current) : null;
}

/** The version in effect as a form names it, so that another version saved meanwhile is noticed. */
function versionNow(row: Destination): string {
  return String(currentTransform(row)?.version ?? 0);
}
async function saveTransform(caller: Caller, row: Destination, form: Form, requestUrl: string) {
  if (textIn(form, "read_version") !== versionNow(row))
    return conflict("Another version was saved after the form was opened");
  return attemptRead(caller, sourceTyped(form, sourceNow(row)), async (_, transform) => {
    const read = readChange(caller.services, { transform }, requestUrl);
    if (read.kind !== "ok") return read;
    return updateDestination(caller, { id: row.id, change: read.value, requestUrl });
  });
}
async function tryTransform(caller: Caller, row: Destination, form: Form) {
  const type = textIn(form, "type");
  return attemptRead(caller, sourceTyped(form, sourceNow(row)), (_, source) =>
    previewTransform(caller, {
      id: row.id,
      ...(source ?? { template: {} }),
      ...(type !== undefined && { type }),
    }),
  );
}

/** Whether the form is shown again with the refusal. */
function isOfForm({ kind }: Refused): boolean {
  return kind !== "not_found" && kind !== "forbidden";
}

/** The outcome of a form, for the page that shows it again. */
type ShownTransform = Readonly<{ typed?: Form; refused?: Refused; preview?: TransformPreview }>;

/** Registers the page and its forms: save, preview, restore. */
export function registerTransform<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { callerOf, find, may, showPage, showMissing, showRefused, viewOf } = surface;
  const { route, idIn, home, path } = pathsOf(surface, "transform");

  for (const path of [route, `${route}/preview`, `${route}/restore`])
    for (const action of ["change_endpoint", "write_transform"] as const) app.post(path, may(action));
  app.post(`${route}/preview`, may("preview_endpoint"));

  app.get(route, (c) => show(c));

  app.post(route, async (c) => {
    const typed = await formOf(c);
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const saved = await saveTransform(callerOf(c), found.value, typed, c.req.url);
    return saved.kind === "ok" ? toSaved(c) : showAgain(c, typed, saved);
  });

  app.post(`${route}/preview`, async (c) => {
    const typed = await formOf(c);
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const tried = await tryTransform(callerOf(c), found.value, typed);
    return tried.kind === "ok" ? show(c, { typed, preview: tried.value }) : showAgain(c, typed, tried);
  });

  app.post(`${route}/restore`, async (c) => {
    const input = { id: idIn(c), version: Number((await formOf(c)).version), requestUrl: c.req.url };
    const restored = await attempt(callerOf(c), restoreTransform, input);
    return restored.kind === "ok" ? toSaved(c) : showRefused(c, restored, path(c));
  });

  const toSaved = (c: Context<E>) => c.redirect(`${path(c)}?done=saved`, 303);

  function showAgain(c: Context<E>, typed: Form, refused: Refused): PageAnswer {
    return isOfForm(refused) ? show(c, { typed, refused }) : showRefused(c, refused, path(c));
  }

  async function show(c: Context<E>, { typed: sent, refused, preview }: ShownTransform = {}) {
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const row = found.value;
    const caller = callerOf(c);
    const { types, versions, faults } = await readTransformPage(caller, row);
    // The version that the form began with, until somebody else's is reported.
    const versionRead = sent && refused?.kind !== "conflict" ? textIn(sent, "read_version") : undefined;
    const { ready, version, done } = c.req.query();
    const { t: texts, may, mayCall, showsTarget } = viewOf(c);
    const t = texts.transform;
    const form = transformFormState(sent ?? transformTyped(row, versions, { ready, version }), t, refused);
    const mayChange = mayCall(restoreTransform) && may("write_transform");
    const mayTry = mayChange && mayCall(previewTransform);
    const mayWriteCode = mayChange && caller.services.functions !== undefined && may("write_code");
    return showPage(
      c,
      { title: `${t.title}: ${nameOf(row)}`, refused },
      <>
        <Top crumb={[home(c), nameOf(row)]} title={t.title} lede={t.lede} />
        {done === "saved" && <output class="notice tone-good">{t.saved}</output>}
        <FormNotice form={form} />
        {currentTransform(row) === undefined && <p class="notice tone-bad">{t.unreadable}</p>}
        <TransformFaults faults={faults} />
        {mayChange && <ReadyTemplates path={path(c)} chosen={ready} />}
        <div class="columns">
          <FieldForm
            form={form}
            hasNotice={false}
            action={path(c)}
            aria-label={t.title}
            hidden={{ read_version: versionRead ?? versionNow(row) }}
            submit={mayChange && texts.save}
            aside={
              mayTry && (
                <button type="submit" formaction={`${path(c)}/preview#preview`}>
                  {t.try}
                </button>
              )
            }
            hint={mayTry && t.tryHint}
          >
            <fieldset class="stack" disabled={!mayChange}>
              <legend class="hidden">{t.title}</legend>
              <TemplateFields
                hasUrl={kindNameOf(row.url) !== "queue"}
                hasCode={mayWriteCode || sourceNow(row)?.code !== undefined}
              />
            </fieldset>
            {mayTry && types.length > 0 && (
              <Input
                name="type"
                label={t.example}
                options={[["", t.noExample], ...types.map((type) => [type, type] as const)]}
              />
            )}
          </FieldForm>
          <VersionList path={path(c)} versions={versions} mayChange={mayChange} />
        </div>
        {preview && <TransformDryRun preview={preview} showsUrl={showsTarget(row)} />}
      </>,
    );
  }
}

type Versions = TransformVersions["data"];

/** Reads everything that the page shows besides its form. */
async function readTransformPage(caller: Caller, row: Destination) {
  const [types, versions, faults] = await Promise.all([
    getTypesWithExamples(caller, undefined),
    getTransformVersions(caller, row.id),
    readTransformFaults(caller, row),
  ]);
  return {
    types: types.kind === "ok" ? types.value : [],
    versions: versions.kind === "ok" ? versions.value.data : [],
    faults,
  };
}

/** The last faults of the current source; none if they cannot be read, so that the page is shown nevertheless. */
export async function readTransformFaults(caller: Caller, row: Destination) {
  if (sourceNow(row) === null) return [];
  const found = await attempt(caller, getTransformFaults, row);
  return found.kind === "ok" ? found.value : [];
}

type Asked = Readonly<{ ready?: string | undefined; version?: string | undefined }>;

/** The form at first: of the ready template or the version that the address names, or else of the one in effect. */
function transformTyped(row: Destination, versions: Versions, { ready, version }: Asked): Form {
  if (ready !== undefined) {
    const name = readyTemplates.find((one): one is ReadyTemplate => one === ready);
    return typedOfSource(name === undefined ? null : { template: readyTemplate(name) });
  }
  const former = versions.find((one) => String(one.version) === version);
  if (former === undefined) return typedOfSource(sourceNow(row));
  const { template, code } = former;
  return typedOfSource(code === null ? template && { template } : { code });
}

type SummaryProps = Readonly<{ row: Destination; path: string; faults: readonly DeliveryJson[] }>;

/**
 * On a destination's page: the version in effect, and the deliveries that it failed for. Nothing if events are sent as
 * they are.
 * @param path of the destination
 */
export const TransformSummary: FC<SummaryProps> = ({ row, path, faults }) => {
  const { f, authorText, t: texts } = usePage();
  const t = texts.transform;
  const current = currentTransform(row);
  if (current === null || (current && sendsAsIs(current))) return null;
  return (
    <Section id="transform" title={t.title}>
      <div class="stack">
        {current === undefined ? (
          <p class="notice tone-bad">{t.unreadable}</p>
        ) : (
          <p class="break">
            {`${t.current} ${t.version(f.count(current.version))}, `}
            <Ago at={current.at} />
            {`, ${authorText({ ...current.by, person: current.by.person ?? null })}`}
          </p>
        )}
        <TransformFaults faults={faults} />
        <p>
          <a href={`${path}/transform`}>{t.edit}</a>
        </p>
      </div>
    </Section>
  );
};
