/**
 * The API's reference at /docs, for people: rendered from the document that validation and /openapi.json come
 * from, so that it cannot say anything else. It asks nobody else for anything and runs no script at all.
 */
import { Hono } from "hono";
import { etag } from "hono/etag";
import { secureHeaders } from "hono/secure-headers";
import type { Document } from "../api/document.ts";
import { kinds } from "../api/problem-kinds.ts";
import { versionOf } from "../dashboard/assets.ts";
import { forms } from "../dashboard/style/forms.ts";
import { page } from "../dashboard/style/page.ts";
import { parts } from "../dashboard/style/parts.ts";
import { tokens } from "../dashboard/style/tokens.ts";
import { Reference } from "./page.tsx";
import { reference } from "./style.ts";

const style = [tokens, page, parts, forms, reference].join("");
const styleAt = `/docs/${versionOf(style)}/style.css`;

/** Everything under /docs, and what the types of problems lead to. The document is asked for once, when somebody first looks. */
export function createDocs(documentOf: () => Document) {
  let rendered: Readonly<{ origin: string; html: string }> | undefined;
  const app = new Hono();
  app.use(guarded);
  app.get("/docs", etag(), (c) => {
    const { origin } = new URL(c.req.url);
    if (rendered?.origin !== origin) {
      rendered = {
        origin,
        html: String(<Reference document={documentOf()} origin={origin} styleAt={styleAt} />),
      };
    }
    return c.html(rendered.html, 200, { "cache-control": "public, no-cache" });
  });
  app.get("/docs/:version{[0-9a-f]+}/style.css", (c) =>
    c.body(style, 200, {
      "content-type": "text/css; charset=utf-8",
      "cache-control": "public, max-age=31536000, immutable",
    }),
  );
  app.get("/docs/", (c) => c.redirect("/docs", 301));
  app.get("/problems/:slug", (c) => {
    const status = statusOf(c.req.param("slug"));
    return status === undefined ? c.notFound() : c.redirect(`/docs#problem-${status}`);
  });
  return app;
}

function statusOf(slug: string): string | undefined {
  return Object.entries(kinds).find(([, kind]) => kind.slug === slug)?.[0];
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
