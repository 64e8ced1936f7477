/** The reference, whole: an index, how requests are made, every operation, every thing, every problem. */
import { raw } from "hono/html";
import type { FC } from "hono/jsx";
import type { Document, Method, Operation, Parameter } from "../api/openapi/document.ts";
import { type JsonSchema, resolved } from "../api/openapi/examples.ts";
import { kinds, problemExample } from "../api/problems.ts";
import { Brand, Head, Skip } from "../dashboard/components/layout.tsx";
import { Prose } from "../dashboard/components/parts.tsx";
import { quoted } from "../dashboard/format.ts";
import { PolicyTable } from "../dashboard/simulator/page.tsx";
import { Code, type Field, Fields, fieldsOf, typeWords } from "./fields.tsx";
import { Stuck } from "./troubleshooting.tsx";

// §§ A request that one can paste into a shell, made of an operation's examples.

type Named = Readonly<{ method: Method; path: string; operation: Operation; origin: string }>;

/** `$KEY` stands for the key: an example is copied, and a key has no business in a page. */
export function curlOf({ method, path, operation, origin }: Named): string {
  const { security, parameters = [], requestBody } = operation;
  const body = requestBody?.content["application/json"]?.example;
  return [
    [`curl ${flagOf(method, body)}${word(`${origin}${filled(path, parameters)}`)}`],
    security.length > 0 ? ['-H "Authorization: Bearer $KEY"'] : [],
    body === undefined ? [] : [`--json ${word(JSON.stringify(body, null, 2).replaceAll("\n", "\n  "))}`],
  ]
    .flat()
    .join(" \\\n  ");
}

/** What curl would not do by itself. */
function flagOf(method: Method, body: unknown): string {
  const itself = body === undefined ? "get" : "post";
  return method === itself ? "" : `-X ${method.toUpperCase()} `;
}

function filled(path: string, parameters: readonly Parameter[]): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(parameters.find((parameter) => parameter.name === name)?.example ?? name)),
  );
}

/** Quoted where it has to be: most addresses read better without. */
function word(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : quoted(text);
}

// §§ One operation of the API: what it does, takes and answers.

type Described = Readonly<{ method: Method; path: string; operation: Operation }>;

type OperationProps = Readonly<{ described: Described; document: Document; origin: string }>;

const OperationPart: FC<OperationProps> = ({ described, document, origin }) => {
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

type Props = Readonly<{ document: Document; origin: string; styleAt: string }>;

export const Reference: FC<Props> = ({ document, origin, styleAt }) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en">
      <Head title="API" styleAt={styleAt} />
      <body>
        <Skip />
        <header class="top">
          <div class="wide">
            <Brand />
            <nav aria-label="Pages">
              <a href="/dashboard">Overview</a>
              <a href="/docs" aria-current="page">
                API
              </a>
            </nav>
          </div>
        </header>
        <div class="wide reference">
          <Index document={document} />
          <main id="main" tabindex={-1}>
            <Beginning document={document} origin={origin} />
            <Sections document={document} origin={origin} />
            <RetryPolicies />
            <Things document={document} />
            <Problems />
            <Stuck />
          </main>
        </div>
      </body>
    </html>
  </>
);

/** What a tag holds, in the order of paths: the whole before its parts. */
function operationsOf(document: Document, tag: string): Described[] {
  const inOrder = Object.entries(document.paths).sort(([a], [b]) => (a < b ? -1 : 1));
  return inOrder.flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) =>
      operation.tags?.includes(tag) ? [{ method: method as Method, path, operation }] : [],
    ),
  );
}

function anchorOf(tag: string): string {
  return tag.toLowerCase().replaceAll(" ", "-");
}

const Index: FC<{ document: Document }> = ({ document }) => (
  <nav class="index" aria-label="Contents">
    <ol>
      {document.tags.map(({ name }) => (
        <li>
          <a href={`#${anchorOf(name)}`}>{name}</a>
          <ol>
            {operationsOf(document, name).map(({ operation }) => (
              <li>
                <a href={`#${operation.operationId}`}>{operation.summary}</a>
              </li>
            ))}
          </ol>
        </li>
      ))}
      <li>
        <a href="#retry-policies">Retry policies</a>
      </li>
      <li>
        <a href="#things">Things</a>
      </li>
      <li>
        <a href="#problems">Problems</a>
      </li>
      <li>
        <a href="#stuck-in-retries">Stuck in retries</a>
      </li>
    </ol>
  </nav>
);

const Beginning: FC<{ document: Document; origin: string }> = ({ document, origin }) => (
  <section>
    <h1>API</h1>
    <p class="lede">
      <Prose text={document.info.description} />
    </p>
    <p class="lede">
      Every request but those marked so carries a key, as <code>Authorization: Bearer …</code>; beside each
      operation stands the scope that it needs. This page is made of <a href="/openapi.json">/openapi.json</a>
      , which tools can read; <a href="/openapi.d.ts">/openapi.d.ts</a> says the same to TypeScript.
    </p>
    <Code text={`export KEY=bw_…   # an API key for ${origin}`} label="Before the examples" />
  </section>
);

const Sections: FC<{ document: Document; origin: string }> = ({ document, origin }) => (
  <>
    {document.tags.map(({ name, description }) => (
      <section aria-labelledby={anchorOf(name)}>
        <h2 id={anchorOf(name)}>{name}</h2>
        <p class="lede">{description}</p>
        {operationsOf(document, name).map((described) => (
          <OperationPart described={described} document={document} origin={origin} />
        ))}
      </section>
    ))}
  </>
);

/** What the field `retry` of a destination chooses between. */
const RetryPolicies: FC = () => (
  <section aria-labelledby="retry-policies">
    <h2 id="retry-policies">Retry policies</h2>
    <p class="lede">
      What a destination's <code>retry.preset</code> stands for; any field of <code>retry</code> overrides it.
    </p>
    <PolicyTable />
  </section>
);

/** The schemas that are referred to by name; the bodies of requests stand with their operations. */
const Things: FC<{ document: Document }> = ({ document: { components, paths } }) => {
  const asked = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ requestBody }) => Object.values(requestBody?.content ?? {}))
    .map(({ schema }) => schema.$ref?.split("/").at(-1));
  const elsewhere = JSON.stringify(components.schemas);
  const names = Object.keys(components.schemas).filter(
    (name) => !asked.includes(name) || elsewhere.includes(`"#/components/schemas/${name}"`),
  );
  return (
    <section aria-labelledby="things">
      <h2 id="things">Things</h2>
      <p class="lede">What answers are made of. Fields that are not always there say when they are.</p>
      {names.sort().map((name) => (
        <article class="operation" aria-labelledby={name}>
          <h3 id={name}>
            <a href={`#${name}`}>{name}</a>
          </h3>
          <Fields
            label={`Fields of ${name}`}
            fields={fieldsOf(components.schemas[name] ?? {}, components.schemas)}
            must={false}
          />
        </article>
      ))}
    </section>
  );
};

const Problems: FC = () => (
  <section aria-labelledby="problems">
    <h2 id="problems">Problems</h2>
    <p class="lede">
      Whatever is refused is answered with <code>application/problem+json</code> (RFC 9457): each field that
      is at fault, what is wrong with it, and what would be right.
    </p>
    {Object.entries(kinds).map(([status, { title }]) => (
      <article class="operation" aria-labelledby={`problem-${status}`}>
        <h3 id={`problem-${status}`}>
          <a href={`#problem-${status}`}>
            {status} {title}
          </a>
        </h3>
        <Code
          text={JSON.stringify(problemExample(Number(status) as keyof typeof kinds), null, 2)}
          label="Example"
        />
      </article>
    ))}
  </section>
);
