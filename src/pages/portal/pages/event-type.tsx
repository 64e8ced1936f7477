/** The versions of an event type, and which one each of the visitor's endpoints gets: who may change endpoints chooses another. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { allows } from "../../../core/portal-access.ts";
import { destinationView } from "../../../features/destinations/schema.ts";
import { getDestination, updateDestination } from "../../../features/destinations/service.ts";
import { readChange } from "../../../features/destinations/validate.ts";
import type { EventVersionView } from "../../../features/event-types/version-schema.ts";
import { getVersionEndpoints } from "../../../features/event-types/versions.ts";
import type { Destination } from "../../../store/destination.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { indented, numberIn, textIn } from "../../ui/format.ts";
import { ClippedCell, Crumb, LineTable } from "../../ui/parts.tsx";
import { attempt, attemptRead } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { Copy, PortalOutcomeNotice, portalOutcomeAt } from "../parts.tsx";
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
    const look = c.get("look");
    const name = c.req.param("name");
    const after = c.req.query("after");
    const used = await attempt(caller, () => getVersionEndpoints(caller, { name, after, limit: PAGE_SIZE }));
    if (used.kind === "not_found") return showPortalNotFound(c);
    if (used.kind !== "ok") return showRefused(c, used, LIST);
    const { versions } = used.value;
    return showPortalPage(
      c,
      { title: name, place: "event-types" },
      <>
        <section>
          <Crumb href={LIST}>{look.t.types.title}</Crumb>
          <h1 class="break">{name}</h1>
          <p class="lede">{look.t.types.versionsLede}</p>
        </section>
        <PortalOutcomeNotice look={look} name={c.req.query("done")} />
        <section aria-label={look.t.types.versions}>
          {versions.map((one) => (
            <VersionPanel look={look} name={name} one={one} />
          ))}
        </section>
        <Endpoints
          {...used.value}
          look={look}
          name={name}
          newest={versions[0]?.version ?? 1}
          isFirst={after === undefined}
          mayChange={allows(c.get("visitor").access, "change_endpoint")}
        />
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
    const requestUrl = c.req.url;
    const read = readChange(caller.services, { event_versions: pins }, requestUrl);
    const saved = await attemptRead(caller, read, (change) =>
      updateDestination(caller, { id, change, requestUrl }),
    );
    return saved.kind === "ok"
      ? c.redirect(portalOutcomeAt(path, "saved"), 303)
      : showRefused(c, saved, path);
  });
}

const VersionPanel: FC<{ look: Look; name: string; one: EventVersionView }> = ({ look, name, one }) => {
  const { t, f } = look;
  const { version, schema, deprecated_at: since, sunset_at: until } = one;
  const timeOf = (at: string) => `${f.moment(Date.parse(at))} UTC`;
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
            <Copy
              look={look}
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
  look: Look;
  name: string;
  newest: number;
  endpoints: readonly (Destination & { version: number | null })[];
  last: string | undefined;
  isFirst: boolean;
  mayChange: boolean;
}>;

const Endpoints: FC<EndpointsProps> = ({ look: { t }, name, newest, mayChange, ...page }) => (
  <section aria-labelledby="endpoints">
    <div class="head">
      <h2 id="endpoints">{t.types.endpoints}</h2>
    </div>
    {page.endpoints.length === 0 ? (
      <p class="empty">{t.types.noEndpoints}</p>
    ) : (
      <LineTable
        columns={[
          [t.list.endpoint, "main"],
          [t.types.gets, "state-cell"],
        ]}
      >
        {page.endpoints.map((one) => (
          <tr>
            <ClippedCell text={nameOf(one)}>
              <a href={`/portal/endpoints/${one.id}`}>{nameOf(one)}</a>
            </ClippedCell>
            <td>
              {mayChange && newest > 1 ? (
                <form class="actions" method="post" action={portalTypePath(name)}>
                  <input type="hidden" name="endpoint" value={one.id} />
                  <select name="version" aria-label={t.types.versionOf(nameOf(one))}>
                    {Array.from({ length: newest }, (_, i) => newest - i).map((version) => (
                      <option value={version} selected={version === one.version}>
                        {t.types.version(version)}
                      </option>
                    ))}
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
    )}
    {(page.last !== undefined || !page.isFirst) && (
      <nav class="pager" aria-label={t.types.endpoints}>
        {!page.isFirst && <a href={portalTypePath(name)}>{t.types.first}</a>}
        {page.last !== undefined && <a href={`${portalTypePath(name)}?after=${page.last}`}>{t.types.next}</a>}
      </nav>
    )}
  </section>
);
