/** Strings that would do something if a page showed them as markup, and what a browser's parser sees of a page. */
import { expect } from "vitest";

export const hostileStrings: readonly string[] = [
  "<script>alert(1)</script>",
  "</code></pre><script src=//evil.example></script>",
  '"><img src=x onerror=alert(1)>',
  "' autofocus onfocus=alert(1) x='",
  "</title><svg onload=alert(1)>",
  "javascript:alert(1)",
  "<!--<iframe srcdoc='<script>alert(1)</script>'>",
  "&lt;b&gt;&#x3c;script&#x3e;",
  "]]><style>*{display:none}</style>",
  "\u202e\u0000<\u2028a href=javascript:x>",
  "{{constructor.constructor('alert(1)')()}}",
];

type Skeleton = readonly string[];

/** The tags and the names of their attributes, as a browser's parser sees them. */
async function skeletonOf(html: string): Promise<Skeleton> {
  const seen: string[] = [];
  const rewriter = new HTMLRewriter().on("*", {
    element: ({ tagName, attributes }) => {
      seen.push(`${tagName} ${[...attributes].map(([name]) => name).join(" ")}`);
    },
    comments: () => {
      seen.push("comment");
    },
  });
  await rewriter.transform(new Response(html)).text();
  return seen;
}

/** Renders pages, by their paths, with a string wherever one is shown. */
type PagesWith = (text: string) => Promise<ReadonlyMap<string, string>>;

/**
 * A check that a hostile string adds no element and no attribute to pages, and no link that leaves them. The pages with a
 * harmless string are rendered once.
 */
export function addsOnlyText(pagesWith: PagesWith): (hostile: string) => Promise<void> {
  let harmless: ReadonlyMap<string, Skeleton> | undefined;
  return async (hostile) => {
    harmless ??= await skeletonsOf(await pagesWith("harmless"));
    const pages = await pagesWith(hostile);
    expect([...(await skeletonsOf(pages))]).toEqual([...harmless]);
    for (const html of pages.values()) {
      const targets = [...html.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, to]) => to);
      expect(targets.filter((to) => !to?.startsWith("/") && !to?.startsWith("#"))).toEqual([]);
    }
  };
}

async function skeletonsOf(pages: ReadonlyMap<string, string>): Promise<ReadonlyMap<string, Skeleton>> {
  const skeletons = new Map<string, Skeleton>();
  for (const [path, html] of pages) skeletons.set(path, await skeletonOf(html));
  return skeletons;
}
