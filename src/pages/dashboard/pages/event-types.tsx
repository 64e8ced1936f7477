/**
 * The catalogue of event types, for everybody who is signed in: those who write a receiver look up here what they get.
 * It has no page for visitors who are not, because what a deployment calls its events may be confidential.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getEventTypes } from "../../../features/event-types/service.ts";
import type { EventType } from "../../../store/event-types.ts";
import { indented } from "../../ui/format.ts";
import { ButtonLink, Copyable, OutcomeNotice, StateLabel } from "../../ui/parts.tsx";
import { showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardEnv } from "../session.ts";
import { mayEditTypes, typePath } from "./edit-event-type.tsx";

const PATH = "/dashboard/event-types";
/** A type has up to 32 KB of schema and example. */
const PAGE_SIZE = 20;

export function registerEventTypePages(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const mayEdit = mayEditTypes(c);
    const after = c.req.query("after");
    const archived = mayEdit && c.req.query("archived") !== undefined;
    const listed = await getEventTypes(callerOnPage(c), { archived, after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const rows = listed.value;
    const types = rows.slice(0, PAGE_SIZE);
    return showPage(
      c,
      { title: "Event types", place: "event-types" },
      rows.length === 0 && after === undefined ? (
        <EmptyCatalogue {...(mayEdit && { origin: new URL(c.req.url).origin })} />
      ) : (
        <Catalogue
          types={types}
          isFirst={after === undefined}
          next={rows.length > PAGE_SIZE ? types.at(-1)?.name : undefined}
          mayEdit={mayEdit}
          archived={archived}
          outcome={c.req.query("done")}
        />
      ),
    );
  });
}

type Props = Readonly<{
  types: readonly EventType[];
  isFirst: boolean;
  /** The name after which the next page begins. */
  next: string | undefined;
  mayEdit: boolean;
  /** Whether archived types are listed too. */
  archived: boolean;
  /** The name of what an action has just done. */
  outcome: string | undefined;
}>;

const Catalogue: FC<Props> = ({ types, isFirst, next, mayEdit, archived, outcome }) => (
  <>
    <section>
      <div class="head">
        <h1>Event types</h1>
        {mayEdit && (
          <div class="actions">
            <ButtonLink href={`${PATH}/import`}>Import</ButtonLink>
            <ButtonLink href={`${PATH}/new`}>New event type</ButtonLink>
          </div>
        )}
      </div>
      <p class="lede">
        The names of event types, and what their <code>data</code> contains. Destinations subscribe to these
        names.
      </p>
    </section>
    <OutcomeNotice name={outcome} />
    <section aria-label="Event types">
      {types.length === 0 && <p class="empty">No further event types.</p>}
      {types.map((type, i) => (
        <TypePanel type={type} place={i} mayEdit={mayEdit} />
      ))}
      {(next !== undefined || !isFirst) && (
        <nav class="pager" aria-label="Pages of event types">
          {!isFirst && <a href={at({ archived })}>First page</a>}
          {next !== undefined && <a href={at({ archived, after: next })}>Next page</a>}
        </nav>
      )}
      {mayEdit && (
        <p class="pager">
          <a href={at({ archived: !archived })}>
            {archived ? "Hide archived types" : "Show archived types too"}
          </a>
        </p>
      )}
    </section>
  </>
);

function at({ archived, after }: Readonly<{ archived: boolean; after?: string }>): string {
  const query = new URLSearchParams({ ...(archived && { archived: "yes" }), ...(after && { after }) });
  return query.size === 0 ? PATH : `${PATH}?${query}`;
}

const TypeActions: FC<{ type: EventType }> = ({ type: { name, archivedAt } }) => (
  <div class="actions">
    <a class="button" href={typePath(name, "edit")} aria-label={`Edit ${name}`}>
      Edit
    </a>
    <a class="button" href={typePath(name, "versions")} aria-label={`Versions of ${name}`}>
      Versions
    </a>
    <form method="post" action={typePath(name, archivedAt === null ? "archive" : "restore")}>
      <button type="submit" aria-label={`${archivedAt === null ? "Archive" : "Restore"} ${name}`}>
        {archivedAt === null ? "Archive" : "Restore"}
      </button>
    </form>
    <a class="danger" href={typePath(name, "delete")} aria-label={`Delete ${name}`}>
      Delete
    </a>
  </div>
);

type PanelProps = Readonly<{ type: EventType; place: number; mayEdit: boolean }>;

/** @param place makes ids, which a name might not be fit for */
const TypePanel: FC<PanelProps> = ({ type, place, mayEdit }) => {
  const { name, description, schema, example, validates } = type;
  return (
    <article class="delivery" aria-labelledby={`type-${place}`}>
      <div class="head">
        <h2 class="break" id={`type-${place}`}>
          {name}
        </h2>
        {type.version > 1 && <StateLabel tone="quiet">{`Version ${type.version}`}</StateLabel>}
        {type.archivedAt !== null && <StateLabel tone="quiet">Archived</StateLabel>}
        {validates === 1 ? (
          <StateLabel tone="good">Validated</StateLabel>
        ) : (
          <StateLabel tone="quiet">Not validated</StateLabel>
        )}
      </div>
      <div class="stack">
        {description !== null && <p class="break">{description}</p>}
        {validates === 1 && (
          <p class="small soft">Events whose data does not fit the JSON Schema are refused.</p>
        )}
        {example !== null && (
          <Copyable
            id={`example-${place}`}
            label={`Example of the data of ${name}`}
            text={indented(example)}
          />
        )}
        {schema !== null && (
          <details>
            <summary>JSON Schema</summary>
            <Copyable
              id={`schema-${place}`}
              label={`JSON Schema of the data of ${name}`}
              text={indented(schema)}
            />
          </details>
        )}
        {mayEdit ? (
          <TypeActions type={type} />
        ) : (
          type.version > 1 && (
            <p class="small">
              <a href={typePath(name, "versions")}>Versions</a>
            </p>
          )
        )}
      </div>
    </article>
  );
};

/** @param origin of the deployment, for a visitor who may be its operator: tenants do not change the catalogue */
const EmptyCatalogue: FC<{ origin?: string }> = ({ origin }) => (
  <>
    <section>
      <h1>No event types yet</h1>
      <p class="lede">
        The catalogue lists event types and what their <code>data</code> contains. The operator of this
        deployment maintains it.
      </p>
    </section>
    {origin !== undefined && (
      <section aria-labelledby="first">
        <div class="head">
          <h2 id="first">Add the first one</h2>
          <div class="actions">
            <ButtonLink href={`${PATH}/import`}>Import</ButtonLink>
            <ButtonLink href={`${PATH}/new`}>Use a form instead</ButtonLink>
          </div>
        </div>
        <Copyable
          id="create"
          label="The command that adds an event type"
          text={`curl -X PUT ${origin}/v1/event-types/order.created \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"description": "An order has been placed.", "example": {"order": 42}}'`}
        />
      </section>
    )}
  </>
);
