/** One operation of the API: what it does, takes and answers. */
import type { FC } from "hono/jsx";
import type { Document, Method, Operation } from "../api/document.ts";
import { type JsonSchema, resolved } from "../api/document-examples.ts";
import { Prose } from "../dashboard/parts.tsx";
import { curlOf } from "./curl.ts";
import { type Field, fieldsOf, typeWords } from "./field-list.ts";
import { Code, Fields } from "./prose.tsx";

export type Described = Readonly<{ method: Method; path: string; operation: Operation }>;

type OperationProps = Readonly<{ described: Described; document: Document; origin: string }>;

export const OperationPart: FC<OperationProps> = ({ described, document, origin }) => {
  const { method, path, operation } = described;
  const { operationId: id, summary, description } = operation;
  return (
    <article class="operation" aria-labelledby={id}>
      <h3 id={id}>
        <a href={`#${id}`}>{summary}</a>
      </h3>
      <p class="route">
        <code>
          <b>{method.toUpperCase()}</b> {path}
        </code>
        <Scope operation={operation} />
      </p>
      {description !== undefined && (
        <p class="lede">
          <Prose text={description} />
        </p>
      )}
      <Parameters operation={operation} />
      <Body operation={operation} document={document} />
      <Code text={curlOf({ ...described, origin })} label={`Example: ${summary}`} />
      <Answers operation={operation} document={document} />
    </article>
  );
};

const Scope: FC<{ operation: Operation }> = ({ operation: { security } }) => {
  const [scope] = security.flatMap((way) => Object.values(way).flat());
  if (security.length === 0) return <span class="soft">without a key</span>;
  return (
    <span class="soft">
      {scope === undefined ? "any key" : "scope "}
      {scope !== undefined && <code>{scope}</code>}
    </span>
  );
};

const Parameters: FC<{ operation: Operation }> = ({ operation: { parameters = [] } }) => {
  const fields: Field[] = parameters.flatMap(({ name, schema, required = false, description, in: where }) =>
    fieldsOf({ properties: { [name]: schema }, required: required ? [name] : [] }, {}).map((field) => ({
      ...field,
      description,
      type: [{ text: `${where}, ` }, ...field.type],
    })),
  );
  return fields.length === 0 ? null : (
    <>
      <h4>Parameters</h4>
      <Fields label="Parameters" fields={fields} />
    </>
  );
};

const Body: FC<{ operation: Operation; document: Document }> = ({ operation, document }) => {
  const { schemas } = document.components;
  const media = Object.entries(operation.requestBody?.content ?? {});
  return (
    <>
      {media.map(([type, { schema }]) => (
        <>
          <h4>
            Body <span class="soft">{type}</span>
          </h4>
          <Fields label="Fields of the body" fields={fieldsOf(resolved(schema, schemas), schemas)} />
        </>
      ))}
    </>
  );
};

const Answers: FC<{ operation: Operation; document: Document }> = ({ operation, document }) => (
  <>
    <h4>Answers</h4>
    <dl class="answers">
      {Object.entries(operation.responses).map(([status, { description, content = {} }]) => (
        <div>
          <dt>
            <code>{status}</code>
          </dt>
          <dd>
            {Number(status) < 400 ? (
              <Prose text={description} />
            ) : (
              <a href={`#problem-${status}`}>{description}</a>
            )}
            {Object.entries(content)
              .filter(([type]) => !type.includes("problem"))
              .map(([type, { schema, example }]) => (
                <Shape type={type} schema={schema} example={example} document={document} />
              ))}
          </dd>
        </div>
      ))}
    </dl>
  </>
);

type ShapeProps = Readonly<{ type: string; schema: JsonSchema; example: unknown; document: Document }>;

/** What an answer is: the schema's name where it has one, else its fields; and what one looks like. */
const Shape: FC<ShapeProps> = ({ type, schema, example, document }) => {
  const names = [schema, ...(schema.allOf ?? [])].flatMap(({ $ref }) => $ref?.split("/").at(-1) ?? []);
  const own = schema.allOf?.filter(({ $ref }) => $ref === undefined) ?? (schema.$ref ? [] : [schema]);
  const fields = own.flatMap((part) => fieldsOf(part, document.components.schemas));
  const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return (
    <>
      {names.map((name) => (
        <>
          {" "}
          <a href={`#${name}`}>{name}</a>
          {own.length > 0 && ", and:"}
        </>
      ))}
      {fields.length > 0 && <Fields label="Fields of the answer" fields={fields} must={false} />}
      {fields.length === 0 && names.length === 0 && <span class="soft"> {typeWords(schema)[0]?.text}</span>}
      <details>
        <summary>
          Example <span class="soft">{type}</span>
        </summary>
        <Code text={text} label="Example" />
      </details>
    </>
  );
};
