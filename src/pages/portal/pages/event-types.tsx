/**
 * The catalogue of event types: their names and the form of their data; the versions of a type, and which one each of
 * the visitor's endpoints gets. Visitors who may change endpoints can choose another.
 */
import type { FC } from "hono/jsx";
import { destinationView } from "../../../features/destinations/schema.ts";
import { getDestination, updateDestination } from "../../../features/destinations/service.ts";
import type { EventVersionView } from "../../../features/event-types/schema.ts";
import { getEventTypes } from "../../../features/event-types/service.ts";
import {
  type DeprecatedVersion,
  getDeprecatedVersions,
  getVersionEndpoints,
} from "../../../features/event-types/versions.ts";
import type { Destination } from "../../../store/destination.ts";
import type { EventType } from "../../../store/event-types.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { FoldedSchema, TypeExample } from "../../ui/event-parts.tsx";
import { numberIn, textIn } from "../../ui/format.ts";
import { Card, Hidden, LineTable, Options, OutcomeNotice, Pager, Section, Top } from "../../ui/parts.tsx";
import { attempt, pageAfter, saveDestination } from "../../ui/services.ts";
import {
  portalOutcomeAt,
  showPortalNotFound,
  showPortalPage,
  showPortalRefusal,
  showRefused,
} from "../layout.tsx";
import { usePortal } from "../look.ts";
import { callerInPortal, type Portal } from "../session.ts";
import { may } from "../surface.ts";

const PATH = "/portal/event-types";
/** A type has up to 32 KB of schema and example. */
const PAGE_SIZE = 20;

export function registerPortalEventTypes(app: Portal): void {
  app.get(PATH, async (c) => {
    const { t } = c.get("look");
    const refuse = () => showPortalRefusal(c, t.refusals.read, "/portal", 403);
    const listed = await pageAfter(
      c.req.query("after"),
      PAGE_SIZE,
      (page) => getEventTypes(callerInPortal(c), { archived: false, ...page }),
      ({ name }) => name,
    );
    if (listed.kind !== "ok") return refuse();
    const { rows, ...pager } = listed.value;
    const deprecated = await getDeprecatedVersions(callerInPortal(c), rows);
    if (deprecated.kind !== "ok") return refuse();
    const isEmpty = rows.length === 0 && pager.isFirst;
    return showPortalPage(
      c,
      { title: t.eventTypes, place: "event-types" },
      <>
        <Top
          title={isEmpty ? t.types.empty : t.eventTypes}
          lede={isEmpty ? t.types.emptyText : t.types.lede}
        />
        {!isEmpty && (
          <section aria-label={t.eventTypes}>
            {rows.length === 0 && <p class="empty">{t.types.none}</p>}
            {rows.map((type, i) => (
              <TypeCard type={type} deprecated={deprecated.value.get(type.name) ?? []} place={i} />
            ))}
            <Pager path={PATH} {...pager} />
          </section>
        )}
      </>,
    );
  });

  app.get(TYPE, async (c) => {
    const { t } = c.get("look");
    const name = c.req.param("name");
    const after = c.req.query("after");
    const page = { name, after, limit: ENDPOINTS_SHOWN };
    const used = await attempt(callerInPortal(c), getVersionEndpoints, page);
    if (used.kind === "not_found") return showPortalNotFound(c);
    if (used.kind !== "ok") return showRefused(c, used, PATH);
    const { versions, endpoints, last } = used.value;
    return showPortalPage(
      c,
      { title: name, place: "event-types" },
      <>
        <Top crumb={[PATH, t.eventTypes]} title={name} lede={t.types.versionsLede} />
        <OutcomeNotice name={c.req.query("done")} />
        <section aria-label={t.types.versions}>
          {versions.map((one) => (
            <VersionCard name={name} one={one} />
          ))}
        </section>
        <Section id="endpoints" title={t.types.endpoints}>
          <Endpoints name={name} newest={versions[0]?.version ?? 1} endpoints={endpoints} />
          <Pager path={portalTypePath(name)} next={last && { after: last }} isFirst={after === undefined} />
        </Section>
      </>,
    );
  });

  app.post(TYPE, may("change_endpoint"), async (c) => {
    const caller = callerInPortal(c);
    const name = c.req.param("name");
    const path = portalTypePath(name);
    const form = await c.req.parseBody();
    const id = textIn(form, "endpoint") ?? "";
    const found = await getDestination(caller, id);
    if (found.kind !== "ok") return showPortalNotFound(c);
    const pins = { ...destinationView(found.value).event_versions, [name]: numberIn(form, "version") };
    const input = { event_versions: pins };
    const saved = await saveDestination(caller, { id, input, requestUrl: c.req.url });
    return saved.kind === "ok"
      ? c.redirect(portalOutcomeAt(path, "saved"), 303)
      : showRefused(c, saved, path);
  });
}

type CardProps = Readonly<{
  type: EventType;
  deprecated: readonly DeprecatedVersion[];
  /** Makes ids, which a name might not be fit for. */
  place: number;
}>;

const TypeCard: FC<CardProps> = ({ type, deprecated, place }) => {
  const { t } = usePortal();
  const { name, description, schema, example } = type;
  return (
    <Card id={`type-${place}`} title={name}>
      {description !== null && <p class="break">{description}</p>}
      {type.version > 1 && (
        <p class="small soft">
          {t.types.version(type.version)} · <a href={portalTypePath(name)}>{t.types.versions}</a>
        </p>
      )}
      {deprecated.map(({ version, deprecatedAt, sunsetAt }) => (
        <Deprecation version={version} since={deprecatedAt} until={sunsetAt} />
      ))}
      <TypeExample name={name} example={example} id={place} />
      <FoldedSchema name={name} schema={schema} id={place} of={name} />
    </Card>
  );
};

type DeprecationProps = Readonly<{ version: number; since: number; until: number | null }>;

const Deprecation: FC<DeprecationProps> = ({ version, since, until }) => {
  const { t, f } = usePortal();
  const end = until === null ? undefined : f.exact(until);
  return <p class="small">{t.types.deprecated(version, f.exact(since), end)}</p>;
};
function portalTypePath(name: string): string {
  return `${PATH}/${encodeURIComponent(name)}`;
}

const TYPE = `${PATH}/:name`;
const ENDPOINTS_SHOWN = 50;

const VersionCard: FC<{ name: string; one: EventVersionView }> = ({ name, one }) => {
  const { t } = usePortal();
  const { version, schema, deprecated_at: since, sunset_at: until } = one;
  const title = t.types.version(version);
  return (
    <Card id={`version-${version}`} title={title}>
      {since !== null && (
        <Deprecation
          version={version}
          since={Date.parse(since)}
          until={until === null ? null : Date.parse(until)}
        />
      )}
      <FoldedSchema
        name={name}
        schema={schema === null ? null : JSON.stringify(schema)}
        id={version}
        of={title}
      />
    </Card>
  );
};

type EndpointsProps = Readonly<{
  name: string;
  newest: number;
  endpoints: readonly (Destination & { version: number | null })[];
}>;

const Endpoints: FC<EndpointsProps> = ({ name, newest, endpoints }) => {
  const { t, mayCall } = usePortal();
  const mayChange = mayCall(updateDestination) && newest > 1;
  const all = Array.from({ length: newest }, (_, i) => newest - i);
  const versionForm = (one: EndpointsProps["endpoints"][number]) => (
    <form class="actions" method="post" action={portalTypePath(name)}>
      <Hidden of={{ endpoint: one.id }} />
      <select name="version" aria-label={t.types.versionOf(nameOf(one))}>
        <Options
          of={all.map((version) => [String(version), t.types.version(version)])}
          chosen={String(one.version)}
        />
      </select>
      <button type="submit" aria-label={t.types.saveOf(nameOf(one))}>
        {t.save}
      </button>
    </form>
  );
  return (
    <LineTable
      rows={endpoints}
      columns={[
        [t.list.endpoint, "main", (one) => <a href={`/portal/endpoints/${one.id}`}>{nameOf(one)}</a>, nameOf],
        [
          t.types.gets,
          "state-cell",
          (one) => (mayChange ? versionForm(one) : one.version !== null && t.types.version(one.version)),
        ],
      ]}
      empty={t.types.noEndpoints}
    />
  );
};
