/**
 * The catalogue of event types, for everybody who is signed in: those who write a receiver look up here what they get.
 * It has no page for visitors who are not, because what a deployment calls its events may be confidential.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getEventTypes } from "../../../features/event-types/service.ts";
import type { EventType } from "../../../store/event-types.ts";
import { addressOf, indented } from "../../ui/format.ts";
import { ButtonLink, Copyable, OutcomeNotice, Pager, Press, Section, StateLabel } from "../../ui/parts.tsx";
import { pageOfRows } from "../../ui/services.ts";
import { capitalized } from "../../ui/status-text.ts";
import { showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv } from "../session.ts";
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
    const { rows, next } = pageOfRows(listed.value, PAGE_SIZE);
    const isFirst = after === undefined;
    if (rows.length === 0 && isFirst) return showEmpty(c);
    const shown = { archived: archived ? "yes" : undefined };
    return showPage(
      c,
      { title: "Event types", place: "event-types" },
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
            The names of event types, and what their <code>data</code> contains. Destinations subscribe to
            these names.
          </p>
        </section>
        <OutcomeNotice name={c.req.query("done")} />
        <section aria-label="Event types">
          {rows.length === 0 && <p class="empty">No further event types.</p>}
          {rows.map((type, i) => (
            <TypePanel type={type} place={i} mayEdit={mayEdit} />
          ))}
          <Pager path={PATH} query={shown} next={next && { after: next.name }} isFirst={isFirst}>
            {mayEdit && (
              <a href={addressOf(PATH, { archived: archived ? undefined : "yes" })}>
                {archived ? "Hide archived types" : "Show archived types too"}
              </a>
            )}
          </Pager>
        </section>
      </>,
    );
  });
}

const TypeActions: FC<{ type: EventType }> = ({ type: { name, archivedAt } }) => {
  const change = archivedAt === null ? "archive" : "restore";
  const verb = capitalized(change);
  return (
    <div class="actions">
      <a class="button" href={typePath(name, "edit")} aria-label={`Edit ${name}`}>
        Edit
      </a>
      <a class="button" href={typePath(name, "versions")} aria-label={`Versions of ${name}`}>
        Versions
      </a>
      <Press action={typePath(name, change)} label={verb} title={`${verb} ${name}`} />
      <a class="danger" href={typePath(name, "delete")} aria-label={`Delete ${name}`}>
        Delete
      </a>
    </div>
  );
};

type PanelProps = Readonly<{ type: EventType; place: number; mayEdit: boolean }>;

/** @param place makes ids, which a name might not be fit for */
const TypePanel: FC<PanelProps> = ({ type, place, mayEdit }) => {
  const { name, description, schema, example, validates } = type;
  return (
    <article class="delivery" aria-labelledby={`type-${place}`}>
      <div class="head">
        <h2 id={`type-${place}`}>{name}</h2>
        {type.version > 1 && <StateLabel tone="quiet">{`Version ${type.version}`}</StateLabel>}
        {type.archivedAt !== null && <StateLabel tone="quiet">Archived</StateLabel>}
        <StateLabel tone={validates === 1 ? "good" : "quiet"}>
          {validates === 1 ? "Validated" : "Not validated"}
        </StateLabel>
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

/** With the command that adds the first one, for a visitor who may be the operator: tenants do not change the catalogue. */
function showEmpty(c: DashboardContext) {
  const { origin } = new URL(c.req.url);
  const command = `curl -X PUT ${origin}/v1/event-types/order.created \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"description": "An order has been placed.", "example": {"order": 42}}'`;
  const aside = (
    <div class="actions">
      <ButtonLink href={`${PATH}/import`}>Import</ButtonLink>
      <ButtonLink href={`${PATH}/new`}>Use a form instead</ButtonLink>
    </div>
  );
  return showPage(
    c,
    { title: "Event types", place: "event-types" },
    <>
      <section>
        <h1>No event types yet</h1>
        <p class="lede">
          The catalogue lists event types and what their <code>data</code> contains. The operator of this
          deployment maintains it.
        </p>
      </section>
      {mayEditTypes(c) && (
        <Section id="first" title="Add the first one" aside={aside}>
          <Copyable id="create" label="The command that adds an event type" text={command} />
        </Section>
      )}
    </>,
  );
}
