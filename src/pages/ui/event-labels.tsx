/** The tags and channels of an event, in lists and on its page; each tag leads to what else has it, where there is a list of that. */
import type { FC } from "hono/jsx";
import { type PageView, usePage } from "./page.tsx";

type Labels = Readonly<{
  tags?: readonly string[] | undefined;
  channels?: readonly string[] | undefined;
  tenant: string;
}>;

type Props = Readonly<{
  event: Labels;
  /** Where the list with one tag alone is, where that is not the usual one. */
  tagAt?: (tenant: string, tag: string) => string;
  class: string;
}>;

/** Tags are removed with the contents of events, so who may not see these sees no tags. */
export const EventLabels: FC<Props> = ({ event: { tags = [], channels = [], tenant }, tagAt, class: of }) => {
  const { may, t, ...page } = usePage();
  const linkOf = tagAt ?? page.tagAt;
  return (
    <>
      {tags.length > 0 && may("see_payload") && (
        <span class={`labels break ${of}`}>
          {linkOf === undefined ? (
            t.log.tags(tags.join(", "))
          ) : (
            <>
              {t.log.tags("")}
              {tags.map((tag, i) => (
                <>
                  {i > 0 && ", "}
                  <a href={linkOf(tenant, tag)}>{tag}</a>
                </>
              ))}
            </>
          )}
        </span>
      )}
      {channels.length > 0 && <span class={`labels break ${of}`}>{t.log.channels(channels.join(", "))}</span>}
    </>
  );
};

/** The same as plain text, for a tooltip. */
export function labelsText(
  { may, t }: Pick<PageView, "may" | "t">,
  { tags = [], channels = [] }: Partial<Labels> = {},
): string {
  return [
    ...(tags.length > 0 && may("see_payload") ? [t.log.tags(tags.join(", "))] : []),
    ...(channels.length > 0 ? [t.log.channels(channels.join(", "))] : []),
  ].join(" ");
}
