/** Parts of pages about events: the body of one, its tags and channels, and the example and schema of a type. */
import type { FC } from "hono/jsx";
import { readable, textOf } from "../../delivery/http.ts";
import type { StoredEvent } from "../../store/planned-deliveries.ts";
import { indented } from "./format.ts";
import { type PageView, usePage } from "./page.tsx";
import { Copyable, Fold } from "./parts.tsx";

/** The body of an event as it is sent; its JSON is indented. */
export const EventBody: FC<{ event: Pick<StoredEvent, "body" | "isErased"> }> = ({
  event: { body, isErased },
}) => {
  const t = usePage().t.body;
  if (isErased || !body) return <p>{isErased ? t.erased : t.damaged}</p>;
  const text = readable(textOf(body));
  return text === undefined ? (
    <Copyable id="sent-body" label={t.base64} text={body.toBase64()} />
  ) : (
    <Copyable id="sent-body" label={t.text} text={indented(text)} />
  );
};

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

/**
 * The tags and channels of an event; each tag leads to what else has it, where there is a list of that. Tags are removed with the
 * contents of events, so who may not see these sees no tags.
 */
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

type ExampleProps = Readonly<{ name: string; example: string | null; id: number }>;

export const TypeExample: FC<ExampleProps> = ({ name, example, id }) =>
  example === null ? null : (
    <Copyable id={`example-${id}`} label={usePage().t.types.exampleOf(name)} text={indented(example)} />
  );

type SchemaProps = Readonly<{ name: string; schema: string | null; id: number }>;

export const TypeSchema: FC<SchemaProps> = ({ name, schema, id }) =>
  schema === null ? null : (
    <Copyable id={`schema-${id}`} label={usePage().t.types.schemaOf(name)} text={indented(schema)} />
  );

/** @param props `of`: what distinguishes it from the others on the page, for screen readers */
export const FoldedSchema: FC<SchemaProps & Readonly<{ of: string }>> = ({ of, ...schema }) => {
  const title = (
    <>
      {usePage().t.types.schema} <span class="hidden">{of}</span>
    </>
  );
  return schema.schema === null ? null : (
    <Fold title={title}>
      <TypeSchema {...schema} />
    </Fold>
  );
};
