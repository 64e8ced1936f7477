/**
 * Paths of the API for calls inside this Worker. They are made from a template alone, whose values become one step each:
 * a text that somebody has sent cannot be a path, and a value cannot lead out of its step.
 */

declare const made: unique symbol;

/** A path, perhaps with a query, that `apiPath` has made. */
export type ApiPath = string & { readonly [made]: true };

/** Stands for values that URLs resolve, encoded or not (https://url.spec.whatwg.org/#double-dot-path-segment). It names nothing. */
const NOWHERE = "%00";

/** The path of a template: apiPath`/v1/destinations/${id}/pause`. */
export function apiPath(template: TemplateStringsArray, ...values: readonly string[]): ApiPath {
  const steps = values.map((value) =>
    value === "." || value === ".." ? NOWHERE : encodeURIComponent(value.toWellFormed()),
  );
  return String.raw({ raw: template }, ...steps) as ApiPath;
}

/** The path with a query; without parameters, as it is. */
export function withQuery(
  path: ApiPath,
  parameters: URLSearchParams | Readonly<Record<string, string>>,
): ApiPath {
  const query = new URLSearchParams(parameters).toString();
  return query === "" ? path : (`${path}?${query}` as ApiPath);
}
