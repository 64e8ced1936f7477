/** Which of the last events an endpoint would take as its form has it, and why not the others. */
import type { FC } from "hono/jsx";
import type { DestinationPreview } from "../../features/destinations/preview.ts";
import { Ago } from "../ui/parts.tsx";
import { type Look, useLook } from "./look.ts";

export const FilterPreview: FC<{ preview: DestinationPreview }> = ({ preview: { events, taken } }) => {
  const { t, f } = useLook();
  return (
    <output class="stack" id="preview">
      <p>{events.length === 0 ? t.preview.none : t.preview.takes(f.count(taken), f.count(events.length))}</p>
      {events.length > 0 && (
        <ul class="log">
          {events.map(({ delivery_id: id, ...event }) => (
            <li>
              <Ago at={event.timestamp} />
              <span class="break">
                {id === undefined ? event.type : <a href={`/portal/deliveries/${id}`}>{event.type}</a>}
                <span class="soft">{` ${takenText(t, event)}`}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
    </output>
  );
};

type Tried = Pick<DestinationPreview["events"][number], "taken" | "reason">;

function takenText(t: Look["t"], { taken, reason }: Tried): string {
  const why = reason === null ? undefined : t.preview.reasons[reason];
  if (!taken) return t.preview.notTaken(why ?? "");
  return why === undefined ? t.preview.taken : t.preview.takenBut(why);
}
