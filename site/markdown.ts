/** How the repository's Markdown becomes that of the site: its links, its pictures for two themes, and its diagrams. */
import { posix } from "node:path";
import { renderMermaidSVG } from "beautiful-mermaid";
import type { MarkdownRenderer } from "vitepress";
import { fileOf, linkWithin } from "./pages.ts";

export function adapt(md: MarkdownRenderer): void {
  md.core.ruler.push("links_within_the_site", ({ tokens, env }) => {
    const file = fileOf(env.relativePath ?? ""); // a title in the front matter is of no file
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const link = token.type === "link_open" && linkWithin(file, token.attrGet("href") ?? "");
      if (link) token.attrSet("href", link);
      // Braces in code are no expressions of Vue.
      if (token.type === "code_inline") token.attrSet("v-pre", "");
    }
  });

  // A cell without a text heads no column.
  md.core.ruler.push("empty_heads_of_tables", ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      if (token.type !== "th_open" || tokens[index + 1]?.content !== "") continue;
      for (const part of tokens.slice(index, index + 3)) part.tag = part.tag.replace("th", "td");
    }
  });

  const html = md.renderer.rules.html_block;
  md.renderer.rules.html_block = (tokens, index, options, env, self) => {
    const token = tokens[index];
    if (token) token.content = fromRoot(withBothThemes(token.content), fileOf(env.relativePath));
    return html?.(tokens, index, options, env, self) ?? "";
  };

  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, ...others) => {
    const { info = "", content = "" } = tokens[index] ?? {};
    return info === "mermaid" ? diagram(content) : (fence?.(tokens, index, ...others) ?? "");
  };
}

/**
 * Two pictures, of which the style sheet shows the one of the theme: the sources of a `<picture>` follow the system's
 * preference, not the switch of the site. What is not shown is not loaded.
 */
function withBothThemes(html: string): string {
  return html.replaceAll(
    /<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">\s*<\/picture>/g,
    (_, dark: string, alt: string, light: string) =>
      picture("in-light", alt, light) + picture("in-dark", alt, dark),
  );
}

function picture(theme: "in-light" | "in-dark", alt: string, src: string): string {
  return `<img class="${theme}" loading="lazy" alt="${alt}" src="${src}">`;
}

/** With the pictures' paths from the repository's root, because the bundler takes `.github/…` for a package. */
function fromRoot(html: string, file: string): string {
  return html.replaceAll(
    / src="([^"]+)"/g,
    (_, path: string) => ` src="/${posix.join(posix.dirname(file), path)}"`,
  );
}

/** Its colours come from the style sheet. The library's own styles would load a font from elsewhere. */
function diagram(source: string): string {
  const svg = renderMermaidSVG(source, { nodeSpacing: 12, layerSpacing: 24, padding: 8 });
  const plain = svg.replace(/<style>[\s\S]*?<\/style>/, "").replace(/ style="[^"]*"/, "");
  return `<div class="diagram" tabindex="0" v-pre>${plain}</div>`;
}
