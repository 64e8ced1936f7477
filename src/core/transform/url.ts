import type { TransformedRequest } from "./result.ts";

/** The URL of a request: that of the destination, with the path and the query of its transformation, if any, behind its own. */
export function transformedUrl(
  url: string,
  { path, query }: Pick<TransformedRequest, "path" | "query"> = { path: "", query: "" },
): string {
  if (path === "" && query === "") return url;
  const [, beginning = "", search = ""] = /^([^?#]*)(\?[^#]*)?/.exec(url) ?? [];
  const base = path === "" ? beginning : `${beginning.replace(/\/$/, "")}${path}`;
  const added =
    query === "" ? search : `${search === "" ? "?" : `${search}${search === "?" ? "" : "&"}`}${query}`;
  return `${base}${added}`;
}
