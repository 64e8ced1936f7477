/** The page of the reference: an index, how to make requests, every operation, schema and problem, and troubleshooting. */
import { raw } from "hono/html";
import type { Child, FC } from "hono/jsx";
import { shellQuoted } from "../../features/events/curl.ts";
import { DocumentHead, ProductName, Skip } from "../../pages/dashboard/components/layout.tsx";
import { PolicyTable } from "../../pages/dashboard/simulator/page.tsx";
import { Prose } from "../../pages/ui/parts.tsx";
import {
  type Document,
  type Method,
  neededScope,
  type Operation,
  type Parameter,
} from "../openapi/document.ts";
import { resolved, type SchemaObject, schemaNameOf } from "../openapi/examples.ts";
import { type ProblemStatus, problemStatuses, problemTypes } from "../problem-types.ts";
import { problemExample } from "../problems.ts";
import {
  anchorOf,
  Chapter,
  Code,
  type DocumentedField,
  documentedFieldsOf,
  Fields,
  LinkedPart,
  typeWords,
} from "./fields.tsx";
import { Troubleshooting } from "./troubleshooting.tsx";

type Props = Readonly<{ document: Document; origin: string; styleAt: string }>;

export const Reference: FC<Props> = ({ document, origin, styleAt }) => (
  <Page title="API" styleAt={styleAt}>
    <Contents document={document} origin={origin} />
  </Page>
);

const Page: FC<{ title: string; styleAt: string; children: Child }> = ({ title, styleAt, children }) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en">
      <DocumentHead title={title} styleAt={styleAt} />
      <body>
        <Skip />
        <header class="top">
          <div class="frame">
            <ProductName />
            <nav aria-label="Pages">
              <a href="/dashboard">Overview</a>
              <a href="/docs" {...(title === "API" && { "aria-current": "page" })}>
                API
              </a>
            </nav>
          </div>
        </header>
        {children}
      </body>
    </html>
  </>
);

/** The reference below the header, for pages with a header of their own. */
export const Contents: FC<Omit<Props, "styleAt">> = ({ document, origin }) => (
  <div class="frame reference">
    <Index document={document} />
    <main id="main" tabindex={-1}>
      <Introduction document={document} origin={origin} />
      <Sections document={document} origin={origin} />
      <RetryPolicies />
      <SchemaList document={document} />
      <Problems />
      <Troubleshooting />
    </main>
  </div>
);

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
      {["Retry policies", "Schemas", "Problems", "Troubleshooting"].map((title) => (
        <li>
          <a href={`#${anchorOf(title)}`}>{title}</a>
        </li>
      ))}
    </ol>
  </nav>
);

const Introduction: FC<{ document: Document; origin: string }> = ({ document, origin }) => (
  <section>
    <h1>API</h1>
    <p class="lede">
      <Prose text={document.info.description} />
    </p>
    <p class="lede">
      A request needs an API key, as <code>Authorization: Bearer …</code>, with the scope that is shown beside
      the operation; some need none. This page is generated from <a href="/openapi.json">/openapi.json</a>,
      which tools can read. <a href="/openapi.d.ts">/openapi.d.ts</a> has the same as TypeScript types,{" "}
      <a href="/openapi.md">/openapi.md</a> as Markdown.
    </p>
    <Code text={`export BREAKWATER_KEY=bw_…   # an API key for ${origin}`} label="Before the examples" />
  </section>
);

const Sections: FC<{ document: Document; origin: string }> = ({ document, origin }) => (
  <>
    {document.tags.map(({ name, description, externalDocs: more }) => (
      <Chapter title={name}>
        <p class="lede">
          {description}
          {more && (
            <>
              {" "}
              <a href={more.url}>{more.description}</a>.
            </>
          )}
        </p>
        {operationsOf(document, name).map((described) => (
          <OperationPart described={described} document={document} origin={origin} />
        ))}
      </Chapter>
    ))}
  </>
);

/** The operations of a tag, in the order of their paths. */
export function operationsOf(document: Document, tag: string): DescribedOperation[] {
  const inOrder = Object.entries(document.paths).sort(([a], [b]) => (a < b ? -1 : 1));
  return inOrder.flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) =>
      operation.tags?.includes(tag) ? [{ method: method as Method, path, operation }] : [],
    ),
  );
}

export type DescribedOperation = Readonly<{ method: Method; path: string; operation: Operation }>;

type OperationProps = Readonly<{ described: DescribedOperation; document: Document; origin: string }>;

/** One operation: what it does, its parameters, its body and its responses. */
const OperationPart: FC<OperationProps> = ({ described, document, origin }) => {
  const { method, path, operation } = described;
  const { operationId: id, summary, description } = operation;
  return (
    <LinkedPart id={id} title={summary}>
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
      <Responses operation={operation} document={document} />
    </LinkedPart>
  );
};

const Scope: FC<{ operation: Operation }> = ({ operation }) => {
  const scope = neededScope(operation);
  if (operation.security.length === 0) return <span class="soft">without a key</span>;
  return (
    <span class="soft">
      {scope === undefined ? "any key" : "scope "}
      {scope !== undefined && <code>{scope}</code>}
    </span>
  );
};

/** The parameters, their types with where they are: "query, integer". */
export function parameterFields({ parameters = [] }: Operation): DocumentedField[] {
  return parameters.flatMap(({ name, schema, required = false, description, in: where }) =>
    documentedFieldsOf({ properties: { [name]: schema }, required: required ? [name] : [] }, {}).map(
      (field) => ({ ...field, description, type: [{ text: `${where}, ` }, ...field.type] }),
    ),
  );
}

const Parameters: FC<{ operation: Operation }> = ({ operation }) => {
  const fields = parameterFields(operation);
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
          <Fields
            label="Fields of the body"
            fields={documentedFieldsOf(resolved(schema, schemas), schemas)}
          />
        </>
      ))}
    </>
  );
};

const Responses: FC<{ operation: Operation; document: Document }> = ({ operation, document }) => (
  <>
    <h4>Responses</h4>
    <dl class="responses">
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
                <ResponseBody type={type} schema={schema} example={example} document={document} />
              ))}
          </dd>
        </div>
      ))}
    </dl>
  </>
);

type BodyProps = Readonly<{ type: string; schema: SchemaObject; example: unknown; document: Document }>;

/** The name of the schema where it has one, else its fields; and an example. */
const ResponseBody: FC<BodyProps> = ({ type, schema, example, document }) => {
  const names = [schema, ...(schema.allOf ?? [])].flatMap((part) => schemaNameOf(part) ?? []);
  const own = schema.allOf?.filter(({ $ref }) => $ref === undefined) ?? (schema.$ref ? [] : [schema]);
  const fields = own.flatMap((part) => documentedFieldsOf(part, document.components.schemas));
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
      {fields.length > 0 && <Fields label="Fields of the response" fields={fields} marksRequired={false} />}
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

const RetryPolicies: FC = () => (
  <Chapter title="Retry policies">
    <p class="lede">
      The presets that a destination's <code>retry.preset</code> can name. Any other field of{" "}
      <code>retry</code> overrides the preset's.
    </p>
    <PolicyTable />
  </Chapter>
);

/** The named schemas of responses; those of request bodies are shown with their operations. */
const SchemaList: FC<{ document: Document }> = ({ document: { components, paths } }) => {
  const ofRequests = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ requestBody }) => Object.values(requestBody?.content ?? {}))
    .map(({ schema }) => schemaNameOf(schema));
  const responses = Object.values(paths).flatMap((methods) =>
    Object.values(methods).map((one) => one.responses),
  );
  const elsewhere = JSON.stringify([components.schemas, responses]);
  const names = Object.keys(components.schemas).filter(
    (name) => !ofRequests.includes(name) || elsewhere.includes(`"#/components/schemas/${name}"`),
  );
  return (
    <Chapter title="Schemas">
      <p class="lede">The objects in responses. A field that is not always present says when it is.</p>
      {names.sort().map((name) => (
        <LinkedPart id={name} title={name}>
          <Fields
            label={`Fields of ${name}`}
            fields={documentedFieldsOf(components.schemas[name] ?? {}, components.schemas)}
            marksRequired={false}
          />
        </LinkedPart>
      ))}
    </Chapter>
  );
};

const Problems: FC = () => (
  <Chapter title="Problems">
    <p class="lede">
      A request that fails is answered with <code>application/problem+json</code> (RFC 9457). If fields are at
      fault, each is listed with what is wrong and what is expected.
    </p>
    {problemStatuses.map((status) => (
      <LinkedPart id={`problem-${status}`} title={`${status} ${problemTypes[status].title}`}>
        <ProblemText status={status} />
      </LinkedPart>
    ))}
  </Chapter>
);

const ProblemText: FC<{ status: ProblemStatus }> = ({ status }) => (
  <>
    <p class="lede">
      <Prose text={`${problemTypes[status].meaning} ${problemTypes[status].remedy}`} />
    </p>
    <Code text={JSON.stringify(problemExample(status), null, 2)} label="Example" />
  </>
);

/** The page at the address that is the `type` of such problems. */
export const ProblemPage: FC<{ status: ProblemStatus; styleAt: string }> = ({ status, styleAt }) => (
  <Page title={problemTypes[status].title} styleAt={styleAt}>
    <div class="frame">
      <main id="main" tabindex={-1} class="reference">
        <section>
          <h1>{problemTypes[status].title}</h1>
          <p class="route">
            <code>{status}</code>
            <a href={`/docs#problem-${status}`}>All problems</a>
          </p>
          <ProblemText status={status} />
        </section>
      </main>
    </div>
  </Page>
);

type Named = Readonly<{ method: Method; path: string; operation: Operation; origin: string }>;

/** A request that can be pasted into a shell, from the operation's examples. `$BREAKWATER_KEY` stands for the API key. */
export function curlOf({ method, path, operation, origin }: Named): string {
  const { security, parameters = [], requestBody } = operation;
  const body = requestBody?.content["application/json"]?.example;
  return [
    [`curl ${flagOf(method, body)}${word(`${origin}${filled(path, parameters)}`)}`],
    security.length > 0 ? ['-H "Authorization: Bearer $BREAKWATER_KEY"'] : [],
    body === undefined ? [] : [`--json ${word(JSON.stringify(body, null, 2).replaceAll("\n", "\n  "))}`],
  ]
    .flat()
    .join(" \\\n  ");
}

/** The method, where it is not curl's default. */
function flagOf(method: Method, body: unknown): string {
  const byDefault = body === undefined ? "get" : "post";
  return method === byDefault ? "" : `-X ${method.toUpperCase()} `;
}

function filled(path: string, parameters: readonly Parameter[]): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(parameters.find((parameter) => parameter.name === name)?.example ?? name)),
  );
}

/** Quoted where the shell needs it. */
function word(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : shellQuoted(text);
}
