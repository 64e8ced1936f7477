/** Strings that would have an effect if a page showed them as markup, and what a browser's parser finds in a page. */
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

/** All of them in three texts: a page that fails to escape one of them fails in a longer text too. */
export const hostileTexts: readonly string[] = [0, 1, 2].map((turn) =>
  hostileStrings.filter((_, i) => i % 3 === turn).join(" "),
);

/** The pages among an app's routes, without files that are downloaded and what is loaded into pages. */
export function pagesAmong(routes: readonly Readonly<{ method: string; path: string }>[]): string[] {
  const paths = routes.filter(({ method }) => method === "GET").map(({ path }) => path);
  return [...new Set(paths)].filter((path) => !/[*{]|\/(export|tail|answer)$/.test(path));
}

/** The path with a name for each parameter, chosen by the segment before it. */
export function pathNaming(path: string, names: Readonly<Record<string, string>>): string {
  return path.replaceAll(/([^/]+)\/:\w+/g, (_, step: string) => {
    if (names[step] === undefined) throw new Error(`Store one of ${step} for ${path}`);
    return `${step}/${names[step]}`;
  });
}

/** The names of a page's inputs. */
export function namesIn(html: string): string[] {
  const inputs = html.matchAll(/<(?:input|select|textarea|button)\b[^>]*\bname="([^"]+)"/g);
  return [...inputs].map(([, name = ""]) => name);
}

/** Markup that no page has of its own: inline scripts and styles, handlers, comments, and links that leave the site. */
export async function strayMarkup(html: string): Promise<string[]> {
  const found: string[] = [];
  const rewriter = new HTMLRewriter().on("*", {
    element: ({ tagName, attributes }) => {
      const given = new Map(attributes as Iterable<[string, string]>);
      const isInline =
        /^(iframe|style|img|object|base)$/.test(tagName) || (tagName === "script" && !given.has("src"));
      const isLeaving = ["href", "src", "action"].some(
        (name) => /^(?![/#?])/.test(given.get(name) || "/") || /^\/[/\\]/.test(given.get(name) ?? ""),
      );
      const isHandler = [...given.keys()].some((name) => /^(on|srcdoc|style$)|[<'"]/.test(name));
      if (isInline || isLeaving || isHandler) found.push(`${tagName} ${[...given].join(" ")}`);
    },
    comments: ({ text }) => void found.push(`<!--${text}`),
  });
  await rewriter.transform(new Response(html)).text();
  return found;
}
