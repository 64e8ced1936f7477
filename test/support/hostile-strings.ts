/** Strings that would do something if a page showed them as markup, and what a browser's parser sees of a page. */

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
export async function skeletonOf(html: string): Promise<Skeleton> {
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
