/**
 * The reference of the API at /docs, rendered from the OpenAPI document, so that it cannot differ from what is
 * validated. The page loads nothing from elsewhere and runs no script.
 */
import { type Context, Hono } from "hono";
import { etag } from "hono/etag";
import { secureHeaders } from "hono/secure-headers";
import { BoundedMap } from "../../memory.ts";
import { versionOf } from "../../pages/ui/assets.ts";
import { forms, page, parts, tokens } from "../../pages/ui/style.ts";
import type { Document } from "../openapi/document.ts";
import { type ProblemStatus, pathOfProblem, problemStatuses, problemTypes } from "../problem-types.ts";
import { problemExample } from "../problems.ts";
import { llmsText } from "./llms.ts";
import { referenceMarkdown } from "./markdown.ts";
import { ProblemPage, Reference } from "./reference.tsx";

/** The most cached texts: three for each host name of the deployment. */
const MOST_KEPT = 12;

/**
 * Everything under /docs and /problems, /llms.txt and /openapi.md. Anybody may request them, so an isolate makes each of them once for
 * an origin.
 */
export function createDocs(documentOf: () => Document) {
  let document: Document | undefined;
  const made = new BoundedMap<string>(MOST_KEPT);
  const textFor = ({ req }: Context, make: (document: Document, origin: string) => string) => {
    const { origin, pathname } = new URL(req.url);
    const name = `${origin}${pathname}`;
    document ??= documentOf();
    const text = made.get(name) ?? make(document, origin);
    made.set(name, text);
    return text;
  };
  const app = new Hono();
  app.use(guarded);
  app.get("/docs", etag(), (c) => {
    const html = textFor(c, (document, origin) =>
      String(<Reference document={document} origin={origin} styleAt={styleAt} />),
    );
    return c.html(html, 200, REVALIDATED);
  });
  app.get("/llms.txt", etag(), (c) => c.text(textFor(c, llmsText), 200, REVALIDATED));
  app.get("/openapi.md", etag(), (c) =>
    c.body(textFor(c, referenceMarkdown), 200, {
      ...REVALIDATED,
      "content-type": "text/markdown; charset=utf-8",
    }),
  );
  app.get("/docs/:version{[0-9a-f]+}/style.css", (c) =>
    c.body(style, 200, {
      "content-type": "text/css; charset=utf-8",
      "cache-control": "public, max-age=31536000, immutable",
    }),
  );
  app.get("/docs/", (c) => c.redirect("/docs", 301));
  app.get("/problems/:slug", etag(), (c) => {
    const status = problemStatuses.find((one) => problemTypes[one].slug === c.req.param("slug"));
    if (status === undefined) return c.notFound();
    const headers = { vary: "Accept", "cache-control": "public, no-cache" };
    if (c.req.header("accept")?.includes("text/html"))
      return c.html(String(<ProblemPage status={status} styleAt={styleAt} />), 200, headers);
    return c.json(described(status), 200, headers);
  });
  return app;
}

const REVALIDATED = { "cache-control": "public, no-cache" };

function described(status: ProblemStatus) {
  const { title, meaning, remedy } = problemTypes[status];
  return { type: pathOfProblem(status), title, status, meaning, remedy, example: problemExample(status) };
}

const guarded = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
  referrerPolicy: "same-origin",
  xFrameOptions: "DENY",
});

/** The styles that only the reference needs: an index beside the text, fields, and responses. */
const reference = /* css */ `
html { scroll-padding-top: 1rem; }
.reference { display: grid; gap: 0 clamp(1.5rem, 5vw, 4rem); grid-template-columns: minmax(0, 1fr); }
.reference section { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); }
.reference section.scroll { display: block; }
.reference .scroll th, .reference .scroll td { font-size: 0.8125rem; white-space: normal; }
.reference .lede { margin-top: 0; }
.reference h2 { font-size: 1.375rem; letter-spacing: -0.018em; }
.reference h3 { font-size: 1.0625rem; }
.reference h4 { font-size: 0.8125rem; font-weight: 400; color: var(--soft); margin: 0.5rem 0 0; }
.reference h3 a { text-decoration: none; }
.reference h3 a:hover { text-decoration: underline; }
.index { padding-top: clamp(1.25rem, 4vw, 2.75rem); font-size: 0.875rem; }
.index a { text-decoration: none; display: inline-block; padding: 0.1875rem 0; }
.index > ol { display: flex; flex-wrap: wrap; gap: 0 1.25rem; }
.index ol ol { display: none; }
.index li li a { color: var(--soft); }
.index li li a:hover { color: var(--accent); }
.operation { display: grid; gap: 0.75rem; grid-template-columns: minmax(0, 1fr); padding-top: 1.5rem; margin-top: 0.5rem; border-top: 1px solid var(--line); }
.operation:target { border-top-color: var(--accent); }
.operation h3:target a { color: var(--accent); }
.reference pre { max-height: none; }
.route { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; justify-content: space-between; font-size: 0.875rem; }
.route code { font-size: 0.875rem; overflow-wrap: anywhere; }
.fields-of > div { padding: 0.4375rem 0; border-bottom: 1px solid var(--line); }
.fields-of > div:last-child { border-bottom: 0; }
.fields-of dt { overflow-wrap: anywhere; }
.fields-of dt code { font-weight: 600; margin-right: 0.25rem; }
.fields-of dd { font-size: 0.875rem; overflow-wrap: anywhere; }
.responses > div { display: grid; grid-template-columns: 2.5rem minmax(0, 1fr); gap: 0.75rem; padding: 0.25rem 0; }
.responses details { margin: 0.25rem 0; }
.responses details[open] > summary { margin-bottom: 0.5rem; }
@media (min-width: 62rem) {
  .reference { grid-template-columns: 15rem minmax(0, 1fr); }
  .index { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; padding-bottom: 2rem; }
  .index > ol { display: grid; gap: 0.75rem; }
  .index ol ol { display: block; }
}
@media print { .index { display: none; } }
`;

export const layout = [page, parts, forms, reference].join("");

const style = [tokens, layout].join("");
const styleAt = `/docs/${versionOf(style)}/style.css`;
