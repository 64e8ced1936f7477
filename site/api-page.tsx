/** The reference that a deployment serves at /docs, as a page of the site, with the documents that it links to. */
import { createApp } from "../src/http/app.ts";
import { layout } from "../src/http/docs/app.tsx";
import { referenceMarkdown } from "../src/http/docs/markdown.ts";
import { Contents } from "../src/http/docs/reference.tsx";
import { documentOf } from "../src/http/openapi/document.ts";
import { typesOf } from "../src/http/openapi/typescript.ts";

const document = documentOf(createApp());

/** Where the examples send their requests. */
const ORIGIN = "https://breakwater.example.com";

export const html = String(<Contents document={document} origin={ORIGIN} />)
  .replaceAll(/<a href="\/dashboard[^"]*">(.*?)<\/a>/g, "$1") // there is none here
  .replaceAll('href="/openapi', 'target="_self" href="openapi')
  .replaceAll("\n", "&#10;"); // an empty line would end the HTML

/** The rules of the reference hold within it: VitePress has its own for the rest. */
const style = `.api { ${layout.replace("body {", "& {")} }`;

export const markdown = `---
title: API
layout: page
sidebar: false
---
<div class="api" v-pre>${html}</div>

<style>${style}</style>
`;

export const files = {
  "openapi.json": JSON.stringify(document, null, 2),
  "openapi.d.ts": typesOf(document),
  "openapi.md": referenceMarkdown(document, ORIGIN),
};
