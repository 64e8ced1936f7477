/**
 * The catalogue of event types, for everybody who is signed in: those who write a receiver look up here what they get.
 * It has no page for visitors who are not, because what a deployment calls its events may be confidential.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type EventType, listEventTypes } from "../../db/event-types.ts";
import { showPage } from "../components/layout.tsx";
import { Copyable, StateLabel } from "../components/parts.tsx";
import { indented } from "../format.ts";
import type { DashboardEnv } from "../session.ts";

const PATH = "/dashboard/event-types";
/** A type has up to 32 KB of schema and example. */
const PAGE_SIZE = 20;

export function registerEventTypes(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const { db } = c.get("services");
    const { tenant } = c.get("visitor").principal;
    const after = c.req.query("after");
    const rows = await listEventTypes(db, { archived: false, after, limit: PAGE_SIZE + 1 });
    const types = rows.slice(0, PAGE_SIZE);
    return showPage(
      c,
      { title: "Event types", place: "event-types" },
      rows.length === 0 && after === undefined ? (
        <EmptyCatalogue {...(tenant === undefined && { origin: new URL(c.req.url).origin })} />
      ) : (
        <Catalogue
          types={types}
          isFirst={after === undefined}
          next={rows.length > PAGE_SIZE ? types.at(-1)?.name : undefined}
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
}>;

const Catalogue: FC<Props> = ({ types, isFirst, next }) => (
  <>
    <section>
      <h1>Event types</h1>
      <p class="lede">
        What events are called, and what is in their <code>data</code>. Destinations take them by these names.
      </p>
    </section>
    <section aria-label="Event types">
      {types.length === 0 && <p class="empty">No further event types.</p>}
      {types.map((type, i) => (
        <TypePanel type={type} place={i} />
      ))}
      {(next !== undefined || !isFirst) && (
        <nav class="pager" aria-label="Pages of event types">
          {!isFirst && <a href={PATH}>First page</a>}
          {next !== undefined && <a href={`${PATH}?after=${encodeURIComponent(next)}`}>Next page</a>}
        </nav>
      )}
    </section>
  </>
);

/** @param place makes ids, which a name might not be fit for */
const TypePanel: FC<{ type: EventType; place: number }> = ({ type, place }) => {
  const { name, description, schema, example, validates } = type;
  return (
    <article class="delivery" aria-labelledby={`type-${place}`}>
      <div class="head">
        <h2 class="break" id={`type-${place}`}>
          {name}
        </h2>
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
        The catalogue says what events are called, and what is in their <code>data</code>. The operator of
        this deployment adds to it.
      </p>
    </section>
    {origin !== undefined && (
      <section aria-labelledby="first">
        <div class="head">
          <h2 id="first">Add the first one</h2>
          <a href="/docs#event-types">API reference</a>
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
