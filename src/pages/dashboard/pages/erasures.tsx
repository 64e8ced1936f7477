/** Erasures: their progress, and what they have removed. Each stays as the receipt of that. */
import type { ErasureView } from "../../../features/erasures/schema.ts";
import { erasureView, getErasure, getErasures } from "../../../features/erasures/service.ts";
import { countOf } from "../../ui/format.ts";
import { Ago, Banner, FigureList, LineTable, Pager, RowName, Top } from "../../ui/parts.tsx";
import { showNotFound, showPage, showRefusal } from "../components/layout.tsx";
import { callerWithinTenant, type Dashboard } from "../session.ts";

export const ERASURES = "/dashboard/erasures";
const PAGE_SIZE = 50;

export function registerErasurePages(app: Dashboard): void {
  app.get(ERASURES, async (c) => {
    const before = positionIn(c.req.query("before"));
    const listed = await getErasures(callerWithinTenant(c), { before, limit: PAGE_SIZE });
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const { erasures, next } = listed.value;
    const isFirst = before === undefined;
    return showPage(
      c,
      { title: "Erasures" },
      <Top
        title="Erasures"
        lede="Permanently erased contents: of single events, of a range of time, or of deleted tenants."
      >
        <LineTable
          rows={erasures.map(erasureView)}
          columns={[
            [
              "Erasure",
              "main",
              (one) => <RowName name={one.tenant} href={`${ERASURES}/${one.id}`} sub={subjectOf(one)} />,
              (one) => `${one.tenant}: ${subjectOf(one)}`,
            ],
            ["State", "", ({ state }) => ({ tone: tones[state], label: states[state] })],
            ["Events", "num", ({ events }) => countOf(events)],
            ["Started", "num wide", ({ created_at }) => <Ago at={created_at} />],
          ]}
          empty={isFirst ? "Nothing has been erased yet." : "No more erasures."}
        />
        <Pager path={ERASURES} next={next !== undefined && { before: String(next) }} isFirst={isFirst} />
      </Top>,
    );
  });

  app.get(`${ERASURES}/:id`, async (c) => {
    const found = await getErasure(callerWithinTenant(c), c.req.param("id"));
    if (found.kind !== "ok") return showNotFound(c);
    const erasure = erasureView(found.value);
    return showPage(
      c,
      { title: `Erasure ${erasure.id}`, live: erasure.state === "running" },
      <>
        <Top
          crumb={[ERASURES, "Erasures"]}
          title={`Erasure of ${erasure.tenant}`}
          lede={
            <>
              <code>{erasure.id}</code>
              {`: ${subjectOf(erasure)}, started `}
              <Ago at={erasure.created_at} />
            </>
          }
        />
        <Banner label="State" tone={tones[erasure.state]} title={<strong>{states[erasure.state]}</strong>}>
          <p>
            {erasure.ended_at === null
              ? "All events are processed twice, 15 minutes apart. The second pass erases what was being sent during the first."
              : `Ended at ${erasure.ended_at}. This page is the receipt.`}
          </p>
          {erasure.unreadable_bundles.length > 0 && (
            <p>
              {`These bundles could not be read and may still have content that was to be erased: ${erasure.unreadable_bundles.join(", ")}. Repair or remove them, then start another erasure.`}
            </p>
          )}
        </Banner>
        <section aria-label="What has been erased">
          <FigureList
            of={[
              ["Events erased", countOf(erasure.events)],
              ["Their deliveries", countOf(erasure.deliveries)],
              ["Deliveries cancelled", countOf(erasure.cancelled)],
            ]}
          />
        </section>
      </>,
    );
  });
}

/** The place of the last one on the page before; undefined, for the newest page, if it is invalid. */
function positionIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const tones = { running: "busy", completed: "good", incomplete: "bad" } as const;
const states = { running: "Running", completed: "Completed", incomplete: "Incomplete" } as const;
function subjectOf({ event_id: event, everything, since, until }: ErasureView): string {
  if (event !== null) return `the event ${event}`;
  if (everything) return "all events up to then";
  return `events accepted from ${since ?? "the beginning"} to before ${until}`;
}
