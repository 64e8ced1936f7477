/**
 * The page of a transformation: its form, ready templates, a preview, its versions. Dashboard and portal show the same, each in
 * its words, and say who may do what.
 */
import type { Context, Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import type { MiddlewareHandler } from "hono/types";
import { conflict, type Refused, type Result } from "../../core/result.ts";
import { type ReadyTemplate, readyTemplate, readyTemplates } from "../../core/transform/ready.ts";
import { sendsAsIs } from "../../core/transform/versions.ts";
import { kindNameOf } from "../../delivery/kinds/sending.ts";
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
import { ChoiceField, type FormState } from "./fields.tsx";
import { type Form, textIn } from "./format.ts";
import { Crumb, Section, Submit } from "./parts.tsx";
import { attempt, attemptRead } from "./services.ts";
import {
  ReadyTemplates,
  type ShownSource,
  sourceTyped,
  TemplateFields,
  TransformNotice,
  transformFormState,
  typedOfSource,
} from "./transform-form.tsx";
import { TransformDryRun, TransformFaults, type TransformWords, VersionList } from "./transform-view.tsx";

/** The source at work; null: none, or one that cannot be read. */
function sourceNow(row: Destination): ShownSource {
  const current = currentTransform(row);
  return current ? shownSource(current) : null;
}

/** The version at work as a form names it, so that another one that was saved meanwhile is noticed. */
function versionNow(row: Destination): string {
  return String(currentTransform(row)?.version ?? 0);
}

/** Saves the source in a form. */
async function saveTransform(caller: Caller, row: Destination, form: Form, requestUrl: string) {
  if (textIn(form, "read_version") !== versionNow(row))
    return conflict("Another version was saved after the form was opened");
  return attemptRead(caller, sourceTyped(form, sourceNow(row)), async (transform) => {
    const read = readChange(caller.services, { transform }, requestUrl);
    if (read.kind !== "ok") return read;
    return updateDestination(caller, { id: row.id, change: read.value, requestUrl });
  });
}

/** Previews the source in a form. */
async function tryTransform(caller: Caller, row: Destination, form: Form) {
  const type = textIn(form, "type");
  return attemptRead(caller, sourceTyped(form, sourceNow(row)), (source) =>
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
export type ShownTransform = Readonly<{ typed?: Form; refused?: Refused; preview?: TransformPreview }>;

type Answer = Response | Promise<Response>;

/** What dashboard and portal each do in their own way. */
type Surface<E extends Env> = Readonly<{
  /** The address of the page, with `:id` for the destination. */
  path: string;
  /** Refuse visitors who may not change it, and those who may not preview. */
  changing: readonly MiddlewareHandler<E>[];
  previewing: readonly MiddlewareHandler<E>[];
  callerOf: (c: Context<E>) => Caller;
  find: (c: Context<E>, id: string) => Promise<Result<Destination>>;
  show: (c: Context<E>, id: string, shown?: ShownTransform) => Answer;
  showMissing: (c: Context<E>) => Answer;
  showRefused: (c: Context<E>, refused: Refused, back: string) => Answer;
}>;

/** Registers the page and its forms: save, preview, restore. */
export function registerTransformForms<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { path: page, changing, previewing, callerOf, find, show, showMissing, showRefused } = surface;
  const pathOf = (id: string) => page.replace(":id", id);
  const idIn = (c: Context<E>) => c.req.param("id") ?? "";
  const toSaved = (c: Context<E>) => c.redirect(`${pathOf(idIn(c))}?done=saved`, 303);

  for (const guard of changing) for (const path of [page, `${page}/restore`]) app.post(path, guard);
  for (const guard of previewing) app.post(`${page}/preview`, guard);

  app.get(page, (c) => show(c, idIn(c)));

  app.post(page, async (c) => {
    const typed: Form = await c.req.parseBody();
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const saved = await saveTransform(callerOf(c), found.value, typed, c.req.url);
    return saved.kind === "ok" ? toSaved(c) : showAgain(c, typed, saved);
  });

  app.post(`${page}/preview`, async (c) => {
    const typed: Form = await c.req.parseBody();
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const tried = await tryTransform(callerOf(c), found.value, typed);
    return tried.kind === "ok"
      ? show(c, idIn(c), { typed, preview: tried.value })
      : showAgain(c, typed, tried);
  });

  app.post(`${page}/restore`, async (c) => {
    const id = idIn(c);
    const input = { id, version: Number((await c.req.parseBody()).version), requestUrl: c.req.url };
    const restored = await attempt(callerOf(c), () => restoreTransform(callerOf(c), input));
    return restored.kind === "ok" ? toSaved(c) : showRefused(c, restored, pathOf(id));
  });

  function showAgain(c: Context<E>, typed: Form, refused: Refused): Answer {
    const id = idIn(c);
    return isOfForm(refused) ? show(c, id, { typed, refused }) : showRefused(c, refused, pathOf(id));
  }
}

type Versions = TransformVersions["data"];

/** Reads everything that the page shows besides its form. */
export async function readTransformPage(caller: Caller, row: Destination) {
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

/** The last faults of the current source; none where they cannot be read, so that the page is shown all the same. */
export async function readTransformFaults(caller: Caller, row: Destination) {
  if (sourceNow(row) === null) return [];
  const found = await attempt(caller, () => getTransformFaults(caller, row));
  return found.kind === "ok" ? found.value : [];
}

type Asked = Readonly<{ ready?: string | undefined; version?: string | undefined }>;

/** The form at first: of the ready template or the version that the address names, or else of what is at work. */
export function transformTyped(row: Destination, versions: Versions, { ready, version }: Asked): Form {
  if (ready !== undefined) {
    const name = readyTemplates.find((one): one is ReadyTemplate => one === ready);
    return typedOfSource(name === undefined ? null : { template: readyTemplate(name) });
  }
  const former = versions.find((one) => String(one.version) === version);
  if (former === undefined) return typedOfSource(sourceNow(row));
  const { template, code } = former;
  return typedOfSource(code === null ? template && { template } : { code });
}

type PageProps = Readonly<{
  words: TransformWords;
  row: Destination;
  /** The page's own, and the destination's. */
  path: string;
  destinationPath: string;
  isSaved: boolean;
  typed: Form;
  refused?: Refused | undefined;
  preview?: TransformPreview | undefined;
  ready?: string | undefined;
  /** Whether to show where requests go. */
  showsUrl: boolean;
  mayChange: boolean;
  mayWriteCode: boolean;
  mayPreview: boolean;
}> &
  Awaited<ReturnType<typeof readTransformPage>>;

export const TransformPage: FC<PageProps> = (props) => {
  const { words, row, path, typed, refused, preview, ready, versions, faults, mayChange } = props;
  const { t } = words;
  const form = transformFormState(typed, t, refused);
  return (
    <>
      <section>
        <Crumb href={props.destinationPath}>{nameOf(row)}</Crumb>
        <h1>{t.title}</h1>
        <p class="lede">{t.lede}</p>
      </section>
      {props.isSaved && <output class="notice tone-good">{t.saved}</output>}
      <TransformNotice form={form} t={t} />
      {currentTransform(row) === undefined && <p class="notice tone-bad">{t.unreadable}</p>}
      <TransformFaults words={words} faults={faults} />
      {mayChange && <ReadyTemplates path={path} t={t} chosen={ready} />}
      <div class="columns">
        <TransformForm {...props} form={form} />
        <VersionList words={words} path={path} versions={versions} mayChange={mayChange} />
      </div>
      {preview && <TransformDryRun preview={preview} t={t} showsUrl={props.showsUrl} />}
    </>
  );
};

const TransformForm: FC<PageProps & Readonly<{ form: FormState }>> = ({
  words: { t },
  row,
  path,
  form,
  types,
  mayChange,
  mayWriteCode,
  mayPreview,
}) => (
  <form class="stack" method="post" action={path} aria-label={t.title}>
    <input type="hidden" name="read_version" value={versionNow(row)} autocomplete="off" />
    <fieldset class="stack" disabled={!mayChange}>
      <legend class="hidden">{t.title}</legend>
      <TemplateFields
        form={form}
        t={t}
        hasUrl={kindNameOf(row.url) !== "queue"}
        hasCode={mayWriteCode || sourceNow(row)?.code !== undefined}
      />
    </fieldset>
    {mayChange && mayPreview && types.length > 0 && (
      <ChoiceField
        form={{ ...form, labels: { ...form.labels, type: ["type", t.example] } }}
        name="type"
        options={[["", t.noExample], ...types.map((type) => [type, type] as const)]}
      />
    )}
    {mayChange && (
      <div class="actions">
        <Submit>{t.save}</Submit>
        {mayPreview && (
          <>
            <button type="submit" formaction={`${path}/preview#preview`}>
              {t.try}
            </button>
            <span class="hint">{t.tryHint}</span>
          </>
        )}
      </div>
    )}
  </form>
);

type SummaryProps = Readonly<{
  words: TransformWords;
  row: Destination;
  /** The page of the transformation. */
  path: string;
  faults: Awaited<ReturnType<typeof readTransformFaults>>;
}>;

/** On a destination's page: which version is at work, and what it failed for. Nothing where events are sent as they are. */
export const TransformSummary: FC<SummaryProps> = ({ words, row, path, faults }) => {
  const { t, count, ago, author } = words;
  const current = currentTransform(row);
  if (current === null || (current && sendsAsIs(current))) return null;
  return (
    <Section id="transform" title={t.title}>
      <div class="stack">
        {current === undefined ? (
          <p class="notice tone-bad">{t.unreadable}</p>
        ) : (
          <p class="break">
            {`${t.current} ${t.version(count(current.version))}, `}
            {ago(current.at)}
            {`, ${author({ ...current.by, person: current.by.person ?? null })}`}
          </p>
        )}
        <TransformFaults words={words} faults={faults} />
        <p>
          <a href={path}>{t.edit}</a>
        </p>
      </div>
    </Section>
  );
};
