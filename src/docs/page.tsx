/** The reference, whole: an index, how requests are made, every operation, every thing, every problem. */
import { raw } from "hono/html";
import type { FC } from "hono/jsx";
import type { Document, Method } from "../api/document.ts";
import { kinds } from "../api/problem-kinds.ts";
import { problemExample } from "../api/problems.ts";
import { PolicyTable } from "../dashboard/lab/policy-table.tsx";
import { Brand, Head, Skip } from "../dashboard/layout.tsx";
import { Prose } from "../dashboard/parts.tsx";
import { fieldsOf } from "./field-list.ts";
import { type Described, OperationPart } from "./operation.tsx";
import { Code, Fields } from "./prose.tsx";
import { Stuck } from "./stuck.tsx";

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
