/**
 * The versions of an event type, and who gets which. The operator publishes the next one here, tried on recorded events
 * before, and sets until when a former one may be used.
 */
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import {
  type EventVersionView,
  eventVersionChange,
  eventVersionDraft,
  newEventVersion,
  type VersionCheck,
} from "../../../features/event-types/schema.ts";
import {
  changePublishedVersion,
  checkEventVersion,
  getVersionEndpoints,
  publishEventVersion,
} from "../../../features/event-types/versions.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { FoldedSchema } from "../../ui/event-parts.tsx";
import { FieldForm, formState, Input, Inputs } from "../../ui/fields.tsx";
import {
  eventVersionFields,
  readInputs,
  shownInputs,
  versionDateFields,
  versionDraftFields,
} from "../../ui/form-fields.ts";
import { type Form, momentOf, plural, textIn } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  Card,
  Copyable,
  FaultList,
  Fold,
  LineTable,
  OutcomeNotice,
  Pager,
  RowName,
  Section,
  StateLabel,
  Top,
} from "../../ui/parts.tsx";
import { unreadable } from "../../ui/services.ts";
import { showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import { outcomeAt } from "../outcomes.ts";
import { callService, callWith, type Dashboard, type DashboardContext, mayCall } from "../session.ts";
import { EVENT_TYPES, typePath } from "./event-types.tsx";

const VERSIONS = `${EVENT_TYPES}/:name/versions`;
const PAGE_SIZE = 50;

/**
 * A form that was sent. It is shown again if it is refused, or, after a dry run, with the events that the version would
 * break.
 */
type Sent = Readonly<{ typed: Form; refused?: Refused; check?: VersionCheck }>;

export function registerEventTypeVersions(app: Dashboard): void {
  app.get(VERSIONS, (c) => show(c));

  app.post(VERSIONS, async (c) => {
    if (!mayCall(c, publishEventVersion)) return showReadOnly(c);
    const name = c.req.param("name");
    const typed = await c.req.parseBody();
    if (typed.action === "date") return date(c, name, typed);
    const { input, errors } = readInputs(typed, versionDraftFields);
    if (errors.length > 0) return show(c, { typed, refused: unreadable(errors) });
    // Without a conversion, data of the former version is the new data unchanged.
    const draft = { ...input, conversion: input.conversion ?? undefined };
    return typed.action === "try" ? tryIt(c, name, typed, draft) : publish(c, name, typed, draft);
  });

  async function date(c: DashboardContext, name: string, typed: Form) {
    const version = Number(textIn(typed, "version"));
    const { input } = readInputs(typed, versionDateFields);
    const saved = await callWith(c, eventVersionChange, input, (caller, change) =>
      changePublishedVersion(caller, { name, version, change }),
    );
    if (saved.kind !== "ok") return show(c, { typed, refused: saved });
    return c.redirect(outcomeAt(typePath(name, "versions"), "version-dated"), 303);
  }

  async function tryIt(c: DashboardContext, name: string, typed: Form, { example: _, ...draft }: Form) {
    const tried = await callWith(c, eventVersionDraft, draft, (caller, fields) =>
      checkEventVersion(caller, { name, fields }),
    );
    return show(c, tried.kind === "ok" ? { typed, check: tried.value } : { typed, refused: tried });
  }

  async function publish(c: DashboardContext, name: string, typed: Form, draft: Form) {
    const version = Number(textIn(typed, "next"));
    const made = await callWith(c, newEventVersion, draft, (caller, fields) =>
      publishEventVersion(caller, { name, version, fields }),
    );
    if (made.kind !== "ok") return show(c, { typed, refused: made });
    return c.redirect(outcomeAt(typePath(name, "versions"), "version-published"), 303);
  }
}

async function show(c: DashboardContext, sent?: Sent) {
  const name = c.req.param("name") ?? "";
  const after = c.req.query("after");
  const used = await callService(c, getVersionEndpoints, { name, after, limit: PAGE_SIZE });
  if (used.kind === "not_found") return showNotFound(c);
  if (used.kind !== "ok") return showRefusal(c, used, EVENT_TYPES);
  const { versions, endpoints, last } = used.value;
  const [newest] = versions;
  const path = typePath(name, "versions");
  return showPage(
    c,
    { title: `Versions of ${name}`, place: "event-types", refused: sent?.refused },
    <>
      <Top
        crumb={[EVENT_TYPES, "Event types"]}
        title={`Versions of ${name}`}
        lede="Events have the newest version. A destination keeps the version that was the newest when it was created, or the one that it is set to; data is converted down to it."
      />
      <OutcomeNotice name={sent === undefined ? c.req.query("done") : undefined} />
      <section aria-label="Versions">
        {versions.map((one) => (
          <VersionPanel name={name} one={one} isNewest={one === newest} />
        ))}
      </section>
      <Section id="usage" title="Versions by destination">
        <LineTable
          rows={endpoints}
          columns={[
            [
              "Destination",
              "main",
              (one) => <RowName name={nameOf(one)} href={`/dashboard/destinations/${one.id}`} />,
              nameOf,
            ],
            ["Tenant", "", ({ tenant }) => tenant, true],
            ["Version", "num", ({ version }) => version ?? "unreadable"],
          ]}
          empty={
            last === undefined
              ? "No destination takes this type."
              : "None of these destinations takes this type."
          }
        />
        <Pager path={path} next={last && { after: last }} isFirst={after === undefined} />
      </Section>
      {newest && mayCall(c, publishEventVersion) && (
        <>
          {newest.version > 1 && <DateForm path={path} newest={newest.version} sent={of(sent, "date")} />}
          <NextVersion path={path} newest={newest} sent={of(sent, "next")} />
        </>
      )}
    </>,
  );
}

/** Sent by this form; undefined if it was the other one, or none. */
function of(sent: Sent | undefined, form: "date" | "next"): Sent | undefined {
  return sent && (sent.typed.action === "date") === (form === "date") ? sent : undefined;
}

type PanelProps = Readonly<{ name: string; one: EventVersionView; isNewest: boolean }>;

const VersionPanel: FC<PanelProps> = ({ name, one, isNewest }) => {
  const { now } = usePage();
  const { version, conversion, schema, published_at, deprecated_at, sunset_at } = one;
  const time = (at: string) => momentOf(Date.parse(at), now);
  const labels = (
    <>
      {isNewest && <StateLabel tone="good">Newest</StateLabel>}
      {deprecated_at !== null && <StateLabel tone="warn">Deprecated</StateLabel>}
    </>
  );
  return (
    <Card id={`version-${version}`} title={`Version ${version}`} aside={labels}>
      <p class="small soft">
        Published {time(published_at)}
        {deprecated_at !== null && `, deprecated ${time(deprecated_at)}`}
        {sunset_at !== null && `, for use until ${time(sunset_at)}`}
      </p>
      {conversion !== null && (
        <Fold title={`Conversion to version ${version - 1}`}>
          <Copyable
            id={`conversion-${version}`}
            label={`The conversion of version ${version}`}
            text={conversion}
          />
        </Fold>
      )}
      <FoldedSchema
        name={name}
        schema={schema === null ? null : JSON.stringify(schema)}
        id={version}
        of={`Version ${version}`}
      />
    </Card>
  );
};

type FormProps = Readonly<{ path: string; sent: Sent | undefined }>;

const DateForm: FC<FormProps & { newest: number }> = ({ path, newest, sent }) => {
  const form = formState(sent?.typed ?? {}, eventVersionFields, sent?.refused);
  const former = Array.from({ length: newest - 1 }, (_, i) => String(newest - 1 - i));
  return (
    <Section id="dates" title="Deprecate a version">
      <FieldForm
        form={form}
        action={path}
        actions={[["date", "Save dates"]]}
        hint="Deliveries of the version have the dates in headers. Nothing else happens."
      >
        <div class="fields">
          <Input name="version" options={former.map((number) => [number, `Version ${number}`])} />
          <Inputs names={Object.keys(versionDateFields)} />
        </div>
      </FieldForm>
    </Section>
  );
};

type NextProps = FormProps & Readonly<{ newest: EventVersionView }>;

const NextVersion: FC<NextProps> = ({ path, newest, sent }) => {
  const { version } = newest;
  const { schema, example } = shownInputs(newest, versionDraftFields);
  const form = formState(sent?.typed ?? { schema, example }, eventVersionFields, sent?.refused);
  const publish = `Publish version ${version + 1}`;
  return (
    <Section id="next" title={publish}>
      <FieldForm
        form={form}
        action={`${path}#next`}
        hidden={{ next: String(version + 1) }}
        actions={[
          ["try", "Try it on recorded events"],
          ["publish", publish, "main"],
        ]}
        hint="A version cannot be taken back. Trying it changes nothing."
      >
        <Inputs names={["schema", "example"]} />
        <Input
          name="conversion"
          hint={`Makes data of version ${version} from the new data: JSON with Liquid in its strings. Leave it empty if the new data already fits that version.`}
        />
      </FieldForm>
      {sent?.check && <Tried check={sent.check} version={version} />}
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
        rows={broken}
        columns={[
          ["Tenant", "main", ({ tenant }) => tenant, true],
          ["Tried", "num count", (one) => one.events],
          ["Refused", "num count", (one) => one.refused],
          ["Failed", "num count", (one) => one.failed],
          ["Unfit", "num count", (one) => one.unfit],
        ]}
      />
      <FaultList
        faults={broken.flatMap(({ tenant, faults }) =>
          [...new Set(faults)].map((fault) => [tenant, fault] as const),
        )}
      />
    </>
  );
};
