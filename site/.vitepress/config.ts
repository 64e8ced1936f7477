/** The site that `npm run site` makes of README.md, CHANGELOG.md, docs/ and the reference of the API. */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { defineConfig } from "vitepress";
import { mark } from "../../src/pages/ui/assets.ts";
import { tokens } from "../../src/pages/ui/style.ts";
import { api } from "../api.ts";
import { adapt } from "../markdown.ts";
import { addressOf, anchorOf, contentOf, fileOf, llmsIndex, markdownFiles, sidebar } from "../pages.ts";

const description =
  "Webhook delivery on Cloudflare Workers that does not turn one customer's outage into a retry storm";

export default defineConfig({
  title: "Breakwater",
  description,
  head: [
    ["link", { rel: "icon", type: "image/svg+xml", href: markIn("#0b6a72") }],
    ["style", {}, tokens],
  ],
  srcDir: "..",
  srcExclude: ["!(docs|site)/**/*", "!(README|CHANGELOG).md"],
  additionalConfig: {},
  outDir: "dist",
  cacheDir: "../node_modules/.cache/site",
  cleanUrls: true,
  ignoreDeadLinks: "localhostLinks",
  rewrites: (page) => (page.startsWith("site/other/") ? page.replace("site/other/", "") : addressOf(page)),
  markdown: { anchor: { slugify: anchorOf }, config: adapt },
  themeConfig: {
    logo: { light: markIn("#0b6a72"), dark: markIn("#63c9c5") },
    nav: [
      { text: "Guide", link: "/using" },
      { text: "API", link: "/api" },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    notFound: {
      quote: "There is no page here.",
      linkText: "To the first page",
      linkLabel: "To the first page",
    },
    search: {
      provider: "local",
      options: {
        _render: (_, env, md) => searchable(fileOf(env.relativePath), (text) => md.renderAsync(text, env)),
      },
    },
  },
  vite: { build: { license: { fileName: "licenses.txt" }, chunkSizeWarningLimit: 1000 } },
  transformHtml: (html) => html.replace("<head>", `<head>\n    ${policyOf(html)}`),
  buildEnd: ({ outDir }) => {
    const files = { ...api.files, ...markdownFiles(), "llms.txt": llmsIndex(description) };
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(outDir, name)), { recursive: true });
      writeFileSync(join(outDir, name), text);
    }
  },
});

/** The logo in a colour, without a request of its own. */
function markIn(colour: string): string {
  return `data:image/svg+xml,${encodeURIComponent(mark.replace("#0b6a72", colour))}`;
}

/** Holds readers' browsers to the promise that nothing is loaded from elsewhere. VitePress writes inline styles. */
function policyOf(html: string): string {
  const scripts = [...html.matchAll(/<script id=[^>]*>([\s\S]*?)<\/script>/g)].map(
    ([, script = ""]) => `'sha256-${sha256(script)}'`,
  );
  const policy = [
    "default-src 'none'",
    `script-src 'self' ${scripts.join(" ")}`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
  ];
  return `<meta http-equiv="Content-Security-Policy" content="${policy.join("; ")}">`;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

/** The HTML of a page that is searched; none of source. */
async function searchable(file: string, render: (markdown: string) => Promise<string>): Promise<string> {
  if (file === "api.md") return withLinksInHeadings(api.html);
  return extname(file) === ".md" ? render(contentOf(file)) : "";
}

/**
 * A page is searched heading by heading. Each must end with a link to itself, as those of Markdown do, and have a line
 * of its own: VitePress's expression for headings would take minutes for a line of hundreds of kilobytes.
 */
function withLinksInHeadings(html: string): string {
  return html
    .replaceAll("&#39;", "'")
    .replaceAll(/<h\d/g, "\n$&")
    .replaceAll(/<\/h\d>/g, "$&\n")
    .replaceAll(
      /<(h[23]) id="([^"]+)">(?:<a [^>]*>)?(.*?)(?:<\/a>)?<\/\1>/g,
      '<$1 id="$2">$3<a href="#$2"></a></$1>',
    );
}
