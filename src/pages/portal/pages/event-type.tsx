/** The versions of an event type, and which one each of the visitor's endpoints gets: who may change endpoints chooses another. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { destinationView } from "../../../features/destinations/schema.ts";
import { getDestination, updateDestination } from "../../../features/destinations/service.ts";
import type { EventVersionView } from "../../../features/event-types/version-schema.ts";
import { getVersionEndpoints } from "../../../features/event-types/versions.ts";
import type { Destination } from "../../../store/destination.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { indented, numberIn, textIn } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { ClippedCell, Copyable, LineTable, Options, Pager, Section, Top } from "../../ui/parts.tsx";
import { attempt, saveDestination } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import { useLook } from "../look.ts";
import { may } from "../may.ts";
import { PortalOutcomeNotice, portalOutcomeAt } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";

const LIST = "/portal/event-types";
const TYPE = `${LIST}/:name`;
const PAGE_SIZE = 50;

/** The address of the page about one type. */
export function portalTypePath(name: string): string {
  return `${LIST}/${encodeURIComponent(name)}`;
}

export function registerPortalEventType(app: Hono<PortalEnv>): void {
  app.get(TYPE, async (c) => {
    const caller = callerInPortal(c);
    const { t } = c.get("look");
    const name = c.req.param("name");
    const after = c.req.query("after");
    const used = await attempt(caller, () => getVersionEndpoints(caller, { name, after, limit: PAGE_SIZE }));
    if (used.kind === "not_found") return showPortalNotFound(c);
    if (used.kind !== "ok") return showRefused(c, used, LIST);
    const { versions, endpoints, last } = used.value;
    return showPortalPage(
      c,
      { title: name, place: "event-types" },
      <>
        <Top crumb={[LIST, t.types.title]} title={name} lede={t.types.versionsLede} />
        <PortalOutcomeNotice name={c.req.query("done")} />
        <section aria-label={t.types.versions}>
          {versions.map((one) => (
            <VersionPanel name={name} one={one} />
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
    const change = { event_versions: pins };
    const saved = await saveDestination(caller, { id, input: change, requestUrl: c.req.url });
    return saved.kind === "ok"
      ? c.redirect(portalOutcomeAt(path, "saved"), 303)
      : showRefused(c, saved, path);
  });
}

const VersionPanel: FC<{ name: string; one: EventVersionView }> = ({ name, one }) => {
  const { t, f } = useLook();
  const { version, schema, deprecated_at: since, sunset_at: until } = one;
  const timeOf = (at: string) => f.exact(Date.parse(at));
  return (
    <article class="delivery" aria-labelledby={`version-${version}`}>
      <h2 id={`version-${version}`}>{t.types.version(version)}</h2>
      <div class="stack">
        {since !== null && (
          <p class="small">
            {t.types.deprecated(version, timeOf(since), until === null ? undefined : timeOf(until))}
          </p>
        )}
        {schema !== null && (
          <details>
            <summary>
              {t.types.schema} <span class="hidden">{t.types.version(version)}</span>
            </summary>
            <Copyable
              id={`schema-${version}`}
              label={t.types.schemaOf(name)}
              text={indented(JSON.stringify(schema))}
            />
          </details>
        )}
      </div>
    </article>
  );
};

type EndpointsProps = Readonly<{
  name: string;
  newest: number;
  endpoints: readonly (Destination & { version: number | null })[];
}>;

const Endpoints: FC<EndpointsProps> = ({ name, newest, endpoints }) => {
  const { t } = useLook();
  const mayChange = usePage().mayCall(updateDestination) && newest > 1;
  const all = Array.from({ length: newest }, (_, i) => newest - i);
  return (
    <LineTable
      columns={[
        [t.list.endpoint, "main"],
        [t.types.gets, "state-cell"],
      ]}
      empty={t.types.noEndpoints}
    >
      {endpoints.map((one) => (
        <tr>
          <ClippedCell text={nameOf(one)}>
            <a href={`/portal/endpoints/${one.id}`}>{nameOf(one)}</a>
          </ClippedCell>
          <td>
            {mayChange ? (
              <form class="actions" method="post" action={portalTypePath(name)}>
                <input type="hidden" name="endpoint" value={one.id} />
                <select name="version" aria-label={t.types.versionOf(nameOf(one))}>
                  <Options
                    of={all.map((version) => [String(version), t.types.version(version)])}
                    chosen={String(one.version)}
                  />
                </select>
                <button type="submit" aria-label={t.types.saveOf(nameOf(one))}>
                  {t.form.save}
                </button>
              </form>
            ) : (
              one.version !== null && t.types.version(one.version)
            )}
          </td>
        </tr>
      ))}
    </LineTable>
  );
};
