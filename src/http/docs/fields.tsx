/**
 * Components of the reference: chapters with their entries, code, and lists of fields. The fields of inner objects follow with dotted names, as in
 * `retry.preset`; a named schema is only linked to, because it is described once, in a place of its own.
 */
import type { Child, FC } from "hono/jsx";
import { Prose } from "../../pages/ui/parts.tsx";
import { resolved, type SchemaObject, type Schemas, schemaNameOf } from "../openapi/examples.ts";

/** The address of a chapter within the page. */
export function anchorOf(title: string): string {
  return title.toLowerCase().replaceAll(" ", "-");
}

export const Chapter: FC<{ title: string; children?: Child }> = ({ title, children }) => (
  <section aria-labelledby={anchorOf(title)}>
    <h2 id={anchorOf(title)}>{title}</h2>
    {children}
  </section>
);

/** A part of a chapter that links to itself. */
export const LinkedPart: FC<{ id: string; title: string | undefined; children?: Child }> = (props) => (
  <article class="operation" aria-labelledby={props.id}>
    <h3 id={props.id}>
      <a href={`#${props.id}`}>{props.title}</a>
    </h3>
    {props.children}
  </article>
);

export const Code: FC<{ text: string; label: string }> = ({ text, label }) => (
  <figure aria-label={label}>
    <pre>
      <code>{text}</code>
    </pre>
  </figure>
);

/** Fields with their types and limits. `marksRequired` is for requests: in a response it would not be useful. */
export const Fields: FC<{ label: string; fields: readonly DocumentedField[]; marksRequired?: boolean }> = ({
  label,
  fields,
  marksRequired = true,
}) => (
  <dl class="fields-of" aria-label={label}>
    {fields.map((field) => (
      <div>
        <dt>
          <code>{field.name}</code> <Type words={field.type} />
          {marksRequired && field.isRequired && <strong class="small"> required</strong>}
        </dt>
        <dd>
          {field.description !== undefined && <Prose text={field.description} />} <Limits field={field} />
        </dd>
      </div>
    ))}
  </dl>
);

const Type: FC<{ words: readonly TypeWord[] }> = ({ words }) => (
  <span class="soft">
    {words.map(({ text, schema }) => (schema === undefined ? text : <a href={`#${schema}`}>{text}</a>))}
  </span>
);

const Limits: FC<{ field: DocumentedField }> = ({ field: { values, limits } }) => (
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

/** A part of a type's name; `schema` where it is the name of a schema. */
type TypeWord = Readonly<{ text: string; schema?: string }>;

export type DocumentedField = Readonly<{
  /** As in `retry.preset` and `log[].at`. */
  name: string;
  type: readonly TypeWord[];
  isRequired: boolean;
  /** Its limits, its pattern and its default, in words. */
  limits: readonly string[];
  values: readonly string[];
  description: string | undefined;
}>;

/** The fields of an object, or of the entries of a list; where there are choices, of each of them. */
export function documentedFieldsOf(schema: SchemaObject, schemas: Schemas, prefix = ""): DocumentedField[] {
  const parts = schema.allOf ?? choicesOf(schema).filter(({ $ref }) => $ref === undefined);
  if (parts.length > 0)
    return parts.flatMap((part) => documentedFieldsOf(resolved(part, schemas), schemas, prefix));
  const required = new Set(schema.required);
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
    fieldOf(`${prefix}${name}`, field, required.has(name)),
    ...innerFields(`${prefix}${name}`, field, schemas),
  ]);
}

function innerFields(name: string, schema: SchemaObject, schemas: Schemas): DocumentedField[] {
  const inner = schema.items ? innerFields(`${name}[]`, schema.items, schemas) : [];
  const lists = choicesOf(schema).flatMap(({ items }) =>
    items ? innerFields(`${name}[]`, items, schemas) : [],
  );
  return [...documentedFieldsOf(schema, schemas, `${name}.`), ...inner, ...lists];
}

function fieldOf(name: string, schema: SchemaObject, isRequired: boolean): DocumentedField {
  return {
    name,
    isRequired,
    type: typeWords(schema),
    limits: limitsOf(schema),
    values: (schema.enum ?? []).filter((value) => value !== null).map(String),
    description: schema.description,
  };
}

/** The type in words: "list of Delivery", "integer or null". */
export function typeWords(schema: SchemaObject): TypeWord[] {
  const name = schemaNameOf(schema);
  if (name !== undefined) return [{ text: name, schema: name }];
  if (schema.allOf) return schema.allOf.flatMap(typeWords).slice(0, 1);
  const choices = choicesOf(schema).map(typeWords);
  if (choices.length > 0) return joined(choices);
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
  return types.length === 0 ? [{ text: "any JSON" }] : joined(types.map((type) => wordsFor(type, schema)));
}

function wordsFor(type: string, { items, format, additionalProperties }: SchemaObject): TypeWord[] {
  if (type === "array" && items) return [{ text: "list of " }, ...typeWords(items)];
  if (type === "object" && typeof additionalProperties === "object") {
    return [{ text: "object of " }, ...typeWords(additionalProperties)];
  }
  return [{ text: type === "string" && format === "date-time" ? "time" : type }];
}

function joined(all: readonly TypeWord[][]): TypeWord[] {
  return all.flatMap((words, i) => (i === 0 ? words : [{ text: " or " }, ...words]));
}

function choicesOf({ anyOf, oneOf }: SchemaObject): readonly SchemaObject[] {
  return anyOf ?? oneOf ?? [];
}

function limitsOf(schema: SchemaObject): string[] {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, pattern } = schema;
  return [
    between(minimum, maximum, ""),
    between(minLength, maxLength, " characters"),
    between(minItems, maxItems, " entries"),
    ...(pattern === undefined ? [] : [`as \`${pattern}\``]),
    ...(schema.default === undefined ? [] : [`\`${JSON.stringify(schema.default)}\` by default`]),
  ].filter((limit) => limit !== undefined);
}

function between(min: number | undefined, max: number | undefined, unit: string): string | undefined {
  if (min !== undefined && max !== undefined) return `${min} to ${max}${unit}`;
  if (max !== undefined) return `at most ${max}${unit}`;
  return min === undefined ? undefined : `at least ${min}${unit}`;
}
