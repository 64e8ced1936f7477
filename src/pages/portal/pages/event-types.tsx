/** The catalogue of event types: what events are called, and what their data looks like. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getEventTypes } from "../../../features/event-types/service.ts";
import { type DeprecatedVersion, getDeprecatedVersions } from "../../../features/event-types/versions.ts";
import type { EventType } from "../../../store/event-types.ts";
import { Pager, Top } from "../../ui/parts.tsx";
import { pageOfRows } from "../../ui/services.ts";
import { showPortalPage, showPortalRefusal } from "../layout.tsx";
import { useLook } from "../look.ts";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { TypeExample, TypeSchema } from "../type-example.tsx";
import { portalTypePath } from "./event-type.tsx";

const PATH = "/portal/event-types";
/** A type has up to 32 KB of schema and example. */
const PAGE_SIZE = 20;

export function registerPortalEventTypes(app: Hono<PortalEnv>): void {
  app.get(PATH, async (c) => {
    const { t } = c.get("look");
    const after = c.req.query("after");
    const refuse = () => showPortalRefusal(c, t.refusals.read, "/portal", 403);
    const listed = await getEventTypes(callerInPortal(c), { archived: false, after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return refuse();
    const { rows, next } = pageOfRows(listed.value, PAGE_SIZE);
    const deprecated = await getDeprecatedVersions(callerInPortal(c), rows);
    if (deprecated.kind !== "ok") return refuse();
    const isEmpty = rows.length === 0 && after === undefined;
    return showPortalPage(
      c,
      { title: t.types.title, place: "event-types" },
      <>
        <Top
          title={isEmpty ? t.types.empty : t.types.title}
          lede={isEmpty ? t.types.emptyText : t.types.lede}
        />
        {!isEmpty && (
          <section aria-label={t.types.title}>
            {rows.length === 0 && <p class="empty">{t.types.none}</p>}
            {rows.map((type, i) => (
              <TypePanel type={type} deprecated={deprecated.value.get(type.name) ?? []} place={i} />
            ))}
            <Pager path={PATH} next={next && { after: next.name }} isFirst={after === undefined} />
          </section>
        )}
      </>,
    );
  });
}

type PanelProps = Readonly<{
  type: EventType;
  deprecated: readonly DeprecatedVersion[];
  /** Makes ids, which a name might not be fit for. */
  place: number;
}>;

const TypePanel: FC<PanelProps> = ({ type, deprecated, place }) => {
  const { t, f } = useLook();
  const { name, description, schema } = type;
  return (
    <article class="delivery" aria-labelledby={`type-${place}`}>
      <h2 id={`type-${place}`}>{name}</h2>
      <div class="stack">
        {description !== null && <p class="break">{description}</p>}
        {type.version > 1 && (
          <p class="small soft">
            {t.types.version(type.version)} · <a href={portalTypePath(name)}>{t.types.versions}</a>
          </p>
        )}
        {deprecated.map(({ version, deprecatedAt, sunsetAt }) => (
          <p class="small">
            {t.types.deprecated(
              version,
              f.exact(deprecatedAt),
              sunsetAt === null ? undefined : f.exact(sunsetAt),
            )}
          </p>
        ))}
        <TypeExample type={type} place={place} />
        {schema !== null && (
          <details>
            <summary>
              {t.types.schema} <span class="hidden">{name}</span>
            </summary>
            <TypeSchema type={type} place={place} />
          </details>
        )}
      </div>
    </article>
  );
};
