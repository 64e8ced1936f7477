/** The last events that a destination with the form's settings would take, and why not the others. */
import type { FC } from "hono/jsx";
import type { DestinationPreview } from "../../features/destinations/preview.ts";
import type { KitTexts } from "./kit-texts.ts";
import { usePage } from "./page.tsx";
import { Ago } from "./parts.tsx";

export const FilterPreview: FC<{ preview: DestinationPreview }> = ({ preview: { events, taken } }) => {
  const { t, f, eventAt } = usePage();
  return (
    <output class="stack" id="preview">
      <p>{events.length === 0 ? t.preview.none : t.preview.takes(f.count(taken), f.count(events.length))}</p>
      {events.length > 0 && (
        <ul class="log">
          {events.map(({ event_id, delivery_id, ...event }) => {
            const href = eventAt(event_id, delivery_id);
            return (
              <li>
                <Ago at={event.timestamp} />
                <span class="break">
                  {href === undefined ? event.type : <a href={href}>{event.type}</a>}
                  <span class="soft">{` ${takenText(t.preview, event)}`}</span>
                </span>
              </li>
            );
          })}
        </ul>
      )}
    </output>
  );
};

type Tried = Pick<DestinationPreview["events"][number], "taken" | "reason">;

function takenText(t: KitTexts["preview"], { taken, reason }: Tried): string {
  const why = reason === null ? undefined : t.reasons[reason];
  if (!taken) return t.notTaken(why ?? "");
  return why === undefined ? t.taken : t.takenBut(why);
}
