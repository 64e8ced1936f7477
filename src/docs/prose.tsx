/** Small pieces of the reference: code to read or to copy, and lists of fields. */
import type { FC } from "hono/jsx";
import { Prose } from "../dashboard/parts.tsx";
import type { Field, TypeWord } from "./field-list.ts";

/** Something to read or to copy, as it is. */
export const Code: FC<{ text: string; label: string }> = ({ text, label }) => (
  <figure aria-label={label}>
    <pre>
      <code>{text}</code>
    </pre>
  </figure>
);

const Type: FC<{ words: readonly TypeWord[] }> = ({ words }) => (
  <span class="soft">
    {words.map(({ text, schema }) => (schema === undefined ? text : <a href={`#${schema}`}>{text}</a>))}
  </span>
);

/** Fields with their types and limits. `must` says of a field whether that is worth saying. */
export const Fields: FC<{ label: string; fields: readonly Field[]; must?: boolean }> = ({
  label,
  fields,
  must = true,
}) => (
  <dl class="fields-of" aria-label={label}>
    {fields.map((field) => (
      <div>
        <dt>
          <code>{field.name}</code> <Type words={field.type} />
          {must && field.isRequired && <strong class="small"> required</strong>}
        </dt>
        <dd>
          {field.description !== undefined && <Prose text={field.description} />} <Limits field={field} />
        </dd>
      </div>
    ))}
  </dl>
);

const Limits: FC<{ field: Field }> = ({ field: { values, limits } }) => (
  <span class="soft">
    {values.map((value, i) => (
      <>
        {i > 0 && " · "}
        <code>{value}</code>
      </>
    ))}
    {values.length > 0 && limits.length > 0 && "; "}
    <Prose text={limits.join(", ")} />
  </span>
);
