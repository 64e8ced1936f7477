/** Which of the last events an endpoint would take as its form has it, and why not the others. */
import type { FC } from "hono/jsx";
import type { DestinationPreview } from "../../features/destinations/preview.ts";
import type { Look } from "./look.ts";
import { PortalAgo } from "./parts.tsx";

type Props = Readonly<{ look: Look; preview: DestinationPreview; now: number }>;

export const FilterPreview: FC<Props> = ({ look, preview: { events, taken }, now }) => {
  const { t, f } = look;
  return (
    <output class="stack" id="preview">
      <p>{events.length === 0 ? t.preview.none : t.preview.takes(f.count(taken), f.count(events.length))}</p>
      {events.length > 0 && (
        <ul class="log">
          {events.map((event) => (
            <li>
              <PortalAgo look={look} at={Date.parse(event.timestamp)} now={now} />
              <span class="break">
                {event.delivery_id === undefined ? (
                  event.type
                ) : (
                  <a href={`/portal/deliveries/${event.delivery_id}`}>{event.type}</a>
                )}
                <span class="soft">{` ${takenText(look, event)}`}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
    </output>
  );
};

function takenText({ t }: Look, { taken, reason }: DestinationPreview["events"][number]): string {
  const why = reason === null ? undefined : t.preview.reasons[reason];
  if (!taken) return t.preview.notTaken(why ?? "");
  return why === undefined ? t.preview.taken : t.preview.takenBut(why);
}
