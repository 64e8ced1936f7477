/**
 * The versions of an event type: what there is, and who gets which. The operator publishes the next one here, tried on recorded
 * events before, and says until when a former one is for use.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import {
  type EventVersionView,
  eventVersionChange,
  eventVersionDraft,
  newEventVersion,
  type VersionCheck,
} from "../../../features/event-types/version-schema.ts";
import {
  changePublishedVersion,
  checkEventVersion,
  getVersionEndpoints,
  publishEventVersion,
} from "../../../features/event-types/versions.ts";
import type { Destination } from "../../../store/destination.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { AreaField, ChoiceField, FormNotice, formState, TextField } from "../../ui/fields.tsx";
import { eventVersionFields } from "../../ui/form-fields.ts";
import { type Form, indented, momentOf, plural, textIn, utcIn } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  ClippedCell,
  Copyable,
  Crumb,
  LineTable,
  OutcomeNotice,
  outcomeAt,
  Pager,
  Section,
  StateLabel,
} from "../../ui/parts.tsx";
import { unreadable } from "../../ui/services.ts";
import { callService, callWith } from "../calls.ts";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import { mayEditTypes, schemaIn, schemaTyped, typePath } from "./edit-event-type.tsx";

const LIST = "/dashboard/event-types";
const VERSIONS = `${LIST}/:name/versions`;
const PAGE_SIZE = 50;

/** A form that was sent. It is shown again where it is refused, and with what the version would break where it was tried. */
type Sent = Readonly<{ typed: Form; refused?: Refused; check?: VersionCheck }>;

export function registerEventTypeVersions(app: Hono<DashboardEnv>): void {
  app.get(VERSIONS, (c) => show(c));

  app.post(VERSIONS, async (c) => {
    if (!mayEditTypes(c)) return showReadOnly(c);
    const name = c.req.param("name");
    const typed = await c.req.parseBody();
    if (typed.action === "date") return date(c, name, typed);
    const read = draftIn(typed);
    if (read.errors.length > 0) return show(c, { typed, refused: unreadable(read.errors) });
    return typed.action === "try" ? tryIt(c, name, typed, read.input) : publish(c, name, typed, read.input);
  });

  async function date(c: DashboardContext, name: string, typed: Form) {
    const version = Number(textIn(typed, "version"));
    const dates = {
      deprecated_at: utcIn(typed, "deprecated_at") ?? null,
      sunset_at: utcIn(typed, "sunset_at") ?? null,
    };
    const saved = await callWith(c, eventVersionChange, dates, (caller, change) =>
      changePublishedVersion(caller, { name, version, change }),
    );
    if (saved.kind !== "ok") return show(c, { typed, refused: saved });
    return c.redirect(outcomeAt(typePath(name, "versions"), "version-dated"), 303);
  }

  async function tryIt(c: DashboardContext, name: string, typed: Form, { example: _, ...draft }: Draft) {
    const tried = await callWith(c, eventVersionDraft, draft, (caller, fields) =>
      checkEventVersion(caller, { name, fields }),
    );
    return show(c, tried.kind === "ok" ? { typed, check: tried.value } : { typed, refused: tried });
  }

  async function publish(c: DashboardContext, name: string, typed: Form, input: Draft) {
    const version = Number(textIn(typed, "next"));
    const made = await callWith(c, newEventVersion, input, (caller, fields) =>
      publishEventVersion(caller, { name, version, fields }),
    );
    if (made.kind !== "ok") return show(c, { typed, refused: made });
    return c.redirect(outcomeAt(typePath(name, "versions"), "version-published"), 303);
  }
}

type Draft = ReturnType<typeof draftIn>["input"];

/** A version as the API takes it; what is empty is left out. */
function draftIn(form: Form) {
  const { schema, example, errors } = schemaIn(form);
  const conversion = textIn(form, "conversion");
  return { input: { schema, example, ...(conversion && { conversion }) }, errors };
}

async function show(c: DashboardContext, sent?: Sent) {
  const name = c.req.param("name") ?? "";
  const after = c.req.query("after");
  const used = await callService(c, getVersionEndpoints, { name, after, limit: PAGE_SIZE });
  if (used.kind === "not_found") return showNotFound(c);
  if (used.kind !== "ok") return showRefusal(c, used, LIST);
  const { versions, endpoints, last } = used.value;
  const [newest] = versions;
  const path = typePath(name, "versions");
  return showPage(
    c,
    { title: `Versions of ${name}`, place: "event-types", refused: sent?.refused },
    <>
      <section>
        <Crumb href={LIST}>Event types</Crumb>
        <h1>Versions of {name}</h1>
        <p class="lede">
          Events have the newest version. A destination keeps the version that was the newest when it was
          created, or the one that it is set to; data is converted down to it.
        </p>
      </section>
      <OutcomeNotice name={sent === undefined ? c.req.query("done") : undefined} />
      <section aria-label="Versions">
        {versions.map((one) => (
          <VersionPanel one={one} isNewest={one === newest} />
        ))}
      </section>
      <Section id="usage" title="Who gets which">
        <Usage
          endpoints={endpoints}
          empty={
            last === undefined
              ? "No destination takes this type."
              : "None of these destinations takes this type."
          }
        />
        <Pager path={path} next={last && { after: last }} isFirst={after === undefined} />
      </Section>
      {newest && mayEditTypes(c) && (
        <>
          {newest.version > 1 && <DateForm path={path} newest={newest.version} sent={of(sent, "date")} />}
          <NextVersion path={path} newest={newest} sent={of(sent, "next")} />
        </>
      )}
    </>,
  );
}

/** Sent by this form; undefined where it was the other one, or none. */
function of(sent: Sent | undefined, form: "date" | "next"): Sent | undefined {
  return sent && (sent.typed.action === "date") === (form === "date") ? sent : undefined;
}

const VersionPanel: FC<{ one: EventVersionView; isNewest: boolean }> = ({ one, isNewest }) => {
  const { now } = usePage();
  const { version, conversion, schema, published_at, deprecated_at, sunset_at } = one;
  const time = (at: string) => momentOf(Date.parse(at), now);
  const parts = [
    ["conversion", "conversion", `Conversion to version ${version - 1}`, conversion],
    ["schema-of", "JSON Schema", "JSON Schema", schema === null ? null : indented(JSON.stringify(schema))],
  ] as const;
  return (
    <article class="delivery" aria-labelledby={`version-${version}`}>
      <div class="head">
        <h2 id={`version-${version}`}>Version {version}</h2>
        {isNewest && <StateLabel tone="good">Newest</StateLabel>}
        {deprecated_at !== null && <StateLabel tone="warn">Deprecated</StateLabel>}
      </div>
      <div class="stack">
        <p class="small soft">
          Published {time(published_at)}
          {deprecated_at !== null && `, deprecated ${time(deprecated_at)}`}
          {sunset_at !== null && `, for use until ${time(sunset_at)}`}
        </p>
        {parts.map(
          ([id, what, summary, text]) =>
            text !== null && (
              <details>
                <summary>{summary}</summary>
                <Copyable id={`${id}-${version}`} label={`The ${what} of version ${version}`} text={text} />
              </details>
            ),
        )}
      </div>
    </article>
  );
};

type UsageProps = Readonly<{
  endpoints: readonly (Destination & { version: number | null })[];
  empty: string;
}>;

const Usage: FC<UsageProps> = ({ endpoints, empty }) => (
  <LineTable columns={[["Destination", "main"], ["Tenant"], ["Version", "num"]]} empty={empty}>
    {endpoints.map((one) => (
      <tr>
        <ClippedCell text={nameOf(one)}>
          <a class="name" href={`/dashboard/destinations/${one.id}`}>
            {nameOf(one)}
          </a>
        </ClippedCell>
        <ClippedCell text={one.tenant}>{one.tenant}</ClippedCell>
        <td class="num">{one.version ?? "unreadable"}</td>
      </tr>
    ))}
  </LineTable>
);

type FormProps = Readonly<{ path: string; sent: Sent | undefined }>;

const DateForm: FC<FormProps & { newest: number }> = ({ path, newest, sent }) => {
  const form = formState(sent?.typed ?? {}, eventVersionFields, sent?.refused);
  const former = Array.from({ length: newest - 1 }, (_, i) => String(newest - 1 - i));
  return (
    <Section id="dates" title="Deprecate a version">
      <form class="stack" method="post" action={path}>
        <FormNotice form={form} />
        <div class="fields">
          <ChoiceField
            form={form}
            name="version"
            options={former.map((number) => [number, `Version ${number}`])}
          />
          <TextField form={form} name="deprecated_at" type="datetime-local" hint="Empty: not deprecated." />
          <TextField form={form} name="sunset_at" type="datetime-local" hint="Empty: no end." />
        </div>
        <div class="actions">
          <button type="submit" name="action" value="date">
            Save dates
          </button>
          <span class="hint">Deliveries of the version have the dates in headers. Nothing else happens.</span>
        </div>
      </form>
    </Section>
  );
};

type NextProps = FormProps & Readonly<{ newest: EventVersionView }>;

const NextVersion: FC<NextProps> = ({ path, newest, sent }) => {
  const { version } = newest;
  const typed = sent?.typed ?? schemaTyped(newest);
  const form = formState(typed, eventVersionFields, sent?.refused);
  return (
    <Section id="next" title={`Publish version ${version + 1}`}>
      <form class="stack" method="post" action={`${path}#next`}>
        <FormNotice form={form} />
        <input type="hidden" name="next" value={String(version + 1)} />
        <AreaField form={form} name="schema" hint="Of the new data. JSON Schema 2020-12." />
        <AreaField form={form} name="example" hint="Must fit the schema." />
        <AreaField
          form={form}
          name="conversion"
          placeholder={'{"total": "{{ data.amount.value }}"}'}
          hint={`Makes data of version ${version} of the new data: JSON with Liquid in its strings. Empty: the new data fits the version before as it is.`}
        />
        <div class="actions">
          <button type="submit" name="action" value="try">
            Try it on recorded events
          </button>
          <button type="submit" class="main" name="action" value="publish">
            {`Publish version ${version + 1}`}
          </button>
        </div>
        <p class="hint">A version cannot be taken back. Trying it changes nothing.</p>
        {sent?.check && <Tried check={sent.check} version={version} />}
      </form>
    </Section>
  );
};

/** The tenants whose events the next version would break. */
const Tried: FC<{ check: VersionCheck; version: number }> = ({ check: { tenants, skipped }, version }) => {
  const events = tenants.reduce((sum, one) => sum + one.events, 0);
  const broken = tenants.filter(({ refused, failed, unfit }) => refused + failed + unfit > 0);
  const about =
    skipped > 0
      ? ` ${plural(skipped, "event")} without content ${skipped === 1 ? "was" : "were"} not tried.`
      : "";
  if (events === 0)
    return <p class="notice tone-warn">There are no recorded events of this type to try it on.{about}</p>;
  if (broken.length === 0)
    return (
      <p class="notice tone-good">
        Nothing would break: the last {plural(events, "event")} fit, and are converted to version {version}.
        {about}
      </p>
    );
  return (
    <>
      <p class="notice tone-bad">
        It would break events of {plural(broken.length, "tenant")}: refused by the schema, not converted
        (failed), or converted to what version {version} does not allow (unfit).{about}
      </p>
      <LineTable
        columns={[
          ["Tenant", "main"],
          ["Tried", "num count"],
          ["Refused", "num count"],
          ["Failed", "num count"],
          ["Unfit", "num count"],
        ]}
      >
        {broken.map((one) => (
          <tr>
            <ClippedCell text={one.tenant}>{one.tenant}</ClippedCell>
            <td class="num">{one.events}</td>
            <td class="num">{one.refused}</td>
            <td class="num">{one.failed}</td>
            <td class="num">{one.unfit}</td>
          </tr>
        ))}
      </LineTable>
      <ul class="log">
        {broken.flatMap(({ tenant, faults }) =>
          [...new Set(faults)].map((fault) => (
            <li>
              <span class="soft">{tenant}</span>
              <span class="break">{fault}</span>
            </li>
          )),
        )}
      </ul>
    </>
  );
};
