/** The tags and channels of an event, in lists and on its page; each tag leads to what else has it. */
import type { FC } from "hono/jsx";

type Props = Readonly<{
  tags: readonly string[];
  channels: readonly string[];
  /** Where the list with one tag alone is. */
  tagPath: (tag: string) => string;
  class: string;
}>;

export const EventLabels: FC<Props> = ({ tags, channels, tagPath, class: of }) => (
  <>
    {tags.length > 0 && (
      <span class={`labels break ${of}`}>
        {"Tags: "}
        {tags.map((tag, i) => (
          <>
            {i > 0 && ", "}
            <a href={tagPath(tag)}>{tag}</a>
          </>
        ))}
      </span>
    )}
    {channels.length > 0 && <span class={`labels break ${of}`}>{`Channels: ${channels.join(", ")}`}</span>}
  </>
);

type Labels = Readonly<{ tags?: readonly string[] | undefined; channels?: readonly string[] | undefined }>;

/** The same as plain text, for a tooltip. */
export function labelsText({ tags = [], channels = [] }: Labels = {}): string {
  return [
    ...(tags.length > 0 ? [`Tags: ${tags.join(", ")}`] : []),
    ...(channels.length > 0 ? [`Channels: ${channels.join(", ")}`] : []),
  ].join(" ");
}

/** The deliveries of events with the tag: tags belong to tenants. */
export function deliveriesWithTag(tenant: string): (tag: string) => string {
  return (tag) => `/dashboard/deliveries?${new URLSearchParams({ tenant, tag })}`;
}
