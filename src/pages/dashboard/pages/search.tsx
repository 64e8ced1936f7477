/**
 * The results of the search field that every page has. An id leads straight to the page of its object; words lead to
 * the results, and to how far back they reach.
 */
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { type SearchResultJson, searchQuery } from "../../../features/search/schema.ts";
import { search } from "../../../features/search/service.ts";
import { EventLabels, labelsText } from "../../ui/event-parts.tsx";
import { searchFields } from "../../ui/form-fields.ts";
import { addressOf, momentOf } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { Ago, Facts, LineTable, RefusedNotice, RowName, Section, Top } from "../../ui/parts.tsx";
import { deliveryText } from "../../ui/status-text.ts";
import { showPage } from "../components/layout.tsx";
import { callWith, type Dashboard } from "../session.ts";

const PATH = "/dashboard/search";
const PAGE_SIZE = "25";

export function registerSearchPage(app: Dashboard): void {
  app.get(PATH, async (c) => {
    const q = c.req.query("q")?.trim() ?? "";
    const cursor = c.req.query("cursor");
    const frame = { title: "Search", query: q };
    if (q === "") return showPage(c, frame, <NotSearched lede="Type an ID or words into the field above." />);
    const { tenant, principal } = c.get("visitor");
    const asked = {
      q: principal.tenant === undefined ? narrowed(q, tenant) : q,
      limit: PAGE_SIZE,
      ...(cursor !== undefined && { cursor }),
    };
    const found = await callWith(c, searchQuery, asked, search);
    if (found.kind !== "ok")
      return showPage(c, { ...frame, refused: found }, <NotSearched refused={found} />);
    const { data, next_cursor: next, looked_back_to: back } = found.value;
    const [first] = data;
    const path = first?.matched === "id" ? pathOf(first) : undefined;
    if (path !== undefined) return c.redirect(path, 302);
    const isEnd = data.length === 0 && next === null;
    return showPage(
      c,
      frame,
      <>
        <Top title="Search" lede={`Results for ${q}`} />
        <section aria-label="Results">
          <FoundTable found={data} empty={isEnd ? "Nothing more was found." : "Nothing was found so far."} />
          <p class="pager">
            {back !== null && (
              <output class="soft">{`Searched back to ${momentOf(Date.parse(back), c.get("services").now())}.`}</output>
            )}
            {cursor !== undefined && <a href={addressOf(PATH, { q })}>Start again</a>}
            {next !== null && (
              <a
                class="button"
                href={addressOf(PATH, { q, cursor: next })}
                // The script follows the link automatically while nothing has been found.
                {...(data.length === 0 && { "data-next": "" })}
              >
                Search further
              </a>
            )}
          </p>
        </section>
        {isEnd && <WhatCanBeFound />}
      </>,
    );
  });
}

/** The search within the chosen tenant. An id stands alone, and a tenant that is typed counts. */
function narrowed(q: string, tenant: string | undefined): string {
  const isId = /^(evt|dlv|dst|rpl|key)_\w+$/.test(q);
  return tenant === undefined || isId || /(^|\s)tenant:/.test(q) ? q : `${q} tenant:${tenant}`;
}

/** The page of what was found; undefined if there is none. */
function pathOf({ kind, id, delivery, destination_id }: SearchResultJson): string | undefined {
  const paths: Readonly<Record<typeof kind, string | undefined>> = {
    event: `/dashboard/events/${id}`,
    delivery: `/dashboard/events/${delivery?.event_id}#${id}`,
    destination: `/dashboard/destinations/${id}`,
    replay: `/dashboard/destinations/${destination_id}`,
    key: undefined,
  };
  return paths[kind];
}

const FoundTable: FC<{ found: readonly SearchResultJson[]; empty: string }> = ({ found, empty }) => {
  const page = usePage();
  return (
    <LineTable
      rows={found}
      columns={[
        [
          "Found",
          "main",
          (one) => <Found one={one} />,
          (one) => [titleOf(one), ...aboutOf(one), labelsText(page, one.event)].filter(Boolean).join(" · "),
        ],
        ["What", "wide", ({ kind }) => kinds[kind]],
        ["State", "state-cell brief", (one) => stateOf(one, page.now)],
        ["When", "num", ({ at }) => (at === undefined ? "–" : <Ago at={at} />)],
      ]}
      empty={empty}
    />
  );
};

const titleOf = ({ type, name, id }: SearchResultJson) => type ?? name ?? id;

/** The number of an event's deliveries that are not shown. */
const leftOf = ({ delivery_count: count = 0, deliveries = [] }: SearchResultJson) =>
  count - deliveries.length;

function aboutOf(one: SearchResultJson): readonly (string | undefined)[] {
  const { id, tenant, excerpt, deliveries = [] } = one;
  const left = leftOf(one);
  const to = [...deliveries.map(({ destination }) => destination), ...(left > 0 ? [`${left} more`] : [])];
  return [
    excerpt,
    titleOf(one) === id ? undefined : id,
    to.length === 0 ? undefined : `to ${to.join(", ")}`,
    tenant && `of tenant ${tenant}`,
  ];
}

const Found: FC<{ one: SearchResultJson }> = ({ one }) => {
  const { id, event, tenant, excerpt, deliveries: places = [] } = one;
  const title = titleOf(one);
  const left = leftOf(one);
  return (
    <>
      <RowName name={title} href={pathOf(one)} sub={excerpt} />
      {title !== id && <code class="sub">{id}</code>}
      {places.length > 0 && (
        <span class="sub">
          {places.map(({ destination, destination_id }, i) => (
            <>
              {i === 0 ? "to " : ", "}
              <a href={`/dashboard/destinations/${destination_id}`}>{destination}</a>
            </>
          ))}
          {left > 0 && ` and ${left} more`}
        </span>
      )}
      {tenant !== undefined && <span class="sub">{`of tenant ${tenant}`}</span>}
      {event && (
        <EventLabels
          event={event}
          tagAt={(tenant, tag) => addressOf(PATH, { q: `tag:${tag} tenant:${tenant}` })}
          class="sub"
        />
      )}
    </>
  );
};

/** The state of a delivery, or of an event's first one that needs attention; of a destination or replay its own. */
function stateOf({ state, delivery, deliveries = [] }: SearchResultJson, now: number) {
  if (delivery) return deliveryText(delivery, now, now);
  const texts = deliveries.map(({ state, reason }) => {
    const { tone, label } = deliveryText({ state, reason, attempts: 0, give_up_at: "" }, now, now);
    return { tone, label, text: "" };
  });
  const worst = texts.find(({ tone }) => tone === "bad" || tone === "warn") ?? texts[0];
  return worst ?? (state === undefined ? undefined : { tone: "quiet" as const, label: state, text: "" });
}

const kinds = {
  event: "Event",
  delivery: "Delivery",
  destination: "Destination",
  replay: "Replay",
  key: "API key",
} as const;

const NotSearched: FC<{ lede?: string; refused?: Refused }> = ({ lede, refused }) => (
  <>
    <Top title="Search" lede={lede} />
    {refused && <RefusedNotice refused={refused} fields={searchFields} />}
    <WhatCanBeFound />
  </>
);

const examples = [
  ["evt_…, dlv_…, dst_…, rpl_…", "The event, delivery, destination or replay with this ID."],
  [
    "order-4711",
    "The event with this idempotency key, or with this word in its type, its tags or its content.",
  ],
  ['"inv 42" type:invoice.*', "Events of a type, with words that belong together."],
  ["tag:import since:2026-11-21", "Events with a tag, since a day."],
  ["http_503, status:503", "Deliveries by their reason, or by the status of their last attempt."],
  ["state:dead destination:dst_…", "Deliveries to a destination, by their state."],
] as const;

const WhatCanBeFound: FC = () => (
  <Section id="examples" title="What can be searched">
    <Facts rows={examples.map(([typed, found]) => [<code>{typed}</code>, found])} />
  </Section>
);
