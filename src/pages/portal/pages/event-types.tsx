/** The catalogue of event types: what events are called, and what their data looks like. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getEventTypes } from "../../../features/event-types/service.ts";
import { type DeprecatedVersion, getDeprecatedVersions } from "../../../features/event-types/versions.ts";
import type { EventType } from "../../../store/event-types.ts";
import { showPortalPage, showPortalRefusal } from "../layout.tsx";
import type { Look } from "../look.ts";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { TypeExample, TypeSchema } from "../type-example.tsx";
import { portalTypePath } from "./event-type.tsx";

const PATH = "/portal/event-types";
/** A type has up to 32 KB of schema and example. */
const PAGE_SIZE = 20;

export function registerPortalEventTypes(app: Hono<PortalEnv>): void {
  app.get(PATH, async (c) => {
    const look = c.get("look");
    const { t } = look;
    const after = c.req.query("after");
    const page = { archived: false, after, limit: PAGE_SIZE + 1 };
    const listed = await getEventTypes(callerInPortal(c), page);
    if (listed.kind !== "ok") return showPortalRefusal(c, t.refusals.read, "/portal", 403);
    const rows = listed.value;
    const deprecated = await getDeprecatedVersions(callerInPortal(c), rows.slice(0, PAGE_SIZE));
    if (deprecated.kind !== "ok") return showPortalRefusal(c, t.refusals.read, "/portal", 403);
    const isEmpty = rows.length === 0 && after === undefined;
    return showPortalPage(
      c,
      { title: t.types.title, place: "event-types" },
      <>
        <section>
          <h1>{isEmpty ? t.types.empty : t.types.title}</h1>
          <p class="lede">{isEmpty ? t.types.emptyText : t.types.lede}</p>
        </section>
        {!isEmpty && (
          <Types look={look} rows={rows} deprecated={deprecated.value} isFirst={after === undefined} />
        )}
      </>,
    );
  });
}

type TypesProps = Readonly<{
  look: Look;
  rows: readonly EventType[];
  deprecated: ReadonlyMap<string, readonly DeprecatedVersion[]>;
  isFirst: boolean;
}>;

const Types: FC<TypesProps> = ({ look, rows, deprecated, isFirst }) => {
  const { t } = look;
  const shown = rows.slice(0, PAGE_SIZE);
  const next = rows.length > PAGE_SIZE ? shown.at(-1)?.name : undefined;
  return (
    <section aria-label={t.types.title}>
      {shown.length === 0 && <p class="empty">{t.types.none}</p>}
      {shown.map((type, i) => (
        <TypePanel look={look} type={type} deprecated={deprecated.get(type.name) ?? []} place={i} />
      ))}
      {(next !== undefined || !isFirst) && (
        <nav class="pager" aria-label={t.types.title}>
          {!isFirst && <a href={PATH}>{t.types.first}</a>}
          {next !== undefined && <a href={`${PATH}?after=${encodeURIComponent(next)}`}>{t.types.next}</a>}
        </nav>
      )}
    </section>
  );
};

type PanelProps = Readonly<{
  look: Look;
  type: EventType;
  deprecated: readonly DeprecatedVersion[];
  /** Makes ids, which a name might not be fit for. */
  place: number;
}>;

const TypePanel: FC<PanelProps> = ({ look, type, deprecated, place }) => {
  const { t, f } = look;
  const timeOf = (at: number) => `${f.moment(at)} UTC`;
  const { name, description, schema } = type;
  return (
    <article class="delivery" aria-labelledby={`type-${place}`}>
      <h2 class="break" id={`type-${place}`}>
        {name}
      </h2>
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
              timeOf(deprecatedAt),
              sunsetAt === null ? undefined : timeOf(sunsetAt),
            )}
          </p>
        ))}
        <TypeExample look={look} type={type} place={place} />
        {schema !== null && (
          <details>
            <summary>
              {t.types.schema} <span class="hidden">{name}</span>
            </summary>
            <TypeSchema look={look} type={type} place={place} />
          </details>
        )}
      </div>
    </article>
  );
};
