/** The example and the schema of an event type, to be copied. */
import type { FC } from "hono/jsx";
import { indented } from "./format.ts";
import { usePage } from "./page.tsx";
import { Copyable, Fold } from "./parts.tsx";

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
