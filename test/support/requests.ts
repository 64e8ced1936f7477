/**
 * Malicious and broken requests: bodies that are almost valid, or far from it, ids and cursors cut and altered, headers
 * that lie. Each is a value that fast-check can shrink and print.
 */
import fc from "fast-check";
import { resolved } from "../../src/http/openapi/examples.ts";
import { bodyFor, type Described, document, idNamed, pathFor, type Things } from "./operations.ts";

export type Crooked = Readonly<{ path: string; body: string | undefined; headers: Record<string, string> }>;

/** A request to the operation, somewhere between valid and absurd. */
export function crookedRequest(described: Described, things: Things): fc.Arbitrary<Crooked> {
  const valid = bodyFor(described, things);
  const request = fc.record({
    path: fc
      .tuple(crookedPath(described.path, things), crookedQuery(described, things))
      .map(([path, query]) => `${path}${query}`),
    body: valid === undefined ? surplusBody(described) : crookedBody(valid, fieldsOf(described)),
    headers: crookedHeaders(described),
  });
  const takesLines = "application/x-ndjson" in (described.operation.requestBody?.content ?? {});
  return takesLines
    ? fc.oneof(
        request,
        request.chain((given) => inLines(given, valid)),
      )
    : request;
}

/** The same with a body of lines: the entries of the valid body's list, each possibly broken. */
function inLines(request: Crooked, valid: unknown): fc.Arbitrary<Crooked> {
  const [entry] = Object.values(valid as Record<string, unknown[]>)[0] ?? [];
  const line = fc.oneof({ weight: 3, arbitrary: fc.constant(JSON.stringify(entry)) }, crookedBody(entry, []));
  const headers = { ...request.headers, "content-type": "application/x-ndjson" };
  return fc
    .tuple(fc.array(line, { maxLength: 4 }), fc.constantFrom("\n", "\r\n", "\n\n", "\r"))
    .map(([lines, end]) => ({ ...request, body: lines.join(end), headers }));
}

/** A superfluous body; a GET cannot even carry one. */
function surplusBody({ method }: Described): fc.Arbitrary<string | undefined> {
  return method === "GET" ? fc.constant(undefined) : fc.option(fc.string(), { nil: undefined });
}

/** Values for which a field may be least prepared. */
const nasty: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    "",
    [],
    {},
    -1,
    0,
    1.5,
    1e308,
    Number.MAX_SAFE_INTEGER,
    "\u0000",
    "\ud800",
    "' OR 1=1 --",
    "__proto__",
    "constructor",
    // No text can be made of it.
    { toString: 1, valueOf: 1 },
    "NaN",
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "+275760-09-13T00:00:00.001Z",
    "x".repeat(3000),
    Array(200).fill("a"),
  ),
  fc.string({ unit: "binary" }),
  fc.jsonValue(),
);

const segment = fc
  .oneof(
    nasty.map((value) => (typeof value === "string" ? value : JSON.stringify(value))),
    fc.string({ minLength: 1 }),
  )
  .filter((text) => text !== "" && text !== "." && text !== ".." && text.isWellFormed());

function crookedPath(path: string, things: Things): fc.Arbitrary<string> {
  const own = pathFor(path, things);
  if (own === path) return fc.constant(path);
  const replaced = segment.map((id) => path.replaceAll(/\{\w+\}/g, encodeURIComponent(id)));
  const bent = fc.nat(own.length - 1).map((at) => own.replace(/[^/]+_[^/]+/, (id) => bend(id, at)));
  return fc.oneof({ weight: 3, arbitrary: fc.constant(own) }, replaced, bent);
}

function bend(id: string, at: number): string {
  const where = at % id.length;
  return id.slice(0, where) + (id[where] === "0" ? "1" : "0") + id.slice(where + (at % 3 ? 1 : 0));
}

function crookedQuery({ operation }: Described, things: Things): fc.Arbitrary<string> {
  const names = (operation.parameters ?? []).filter(({ in: where }) => where === "query");
  const fields = names.map(({ name, schema }) => {
    const likely = [
      idNamed(name, things),
      ...(schema.enum ?? []),
      schema.default,
      "1",
      "2026-11-21T09:00:00Z",
    ];
    const value = fc.oneof(
      fc.constantFrom(...likely.filter((one) => one !== undefined).map(String)),
      cursor,
      segment,
    );
    return fc.option(
      value.map((text) => `${name}=${encodeURIComponent(text)}`),
      { nil: "", freq: 1 },
    );
  });
  const unknown = fc.constantFrom("", "", "", "", "", "debug=1", "limit=1&limit=2", "%", "__proto__=1");
  return fc.tuple(...fields, unknown).map((parts) => {
    const given = parts.filter((part) => part !== "").join("&");
    return given === "" ? "" : `?${given}`;
  });
}

/** Texts that decode as cursors and may not be valid ones. */
const cursor = fc
  .oneof(
    fc.jsonValue(),
    fc.tuple(fc.string(), fc.double()),
    fc.tuple(fc.constant("dst_0"), fc.maxSafeInteger()),
  )
  .map((value) => btoa(unescape(encodeURIComponent(JSON.stringify(value).toWellFormed()))));

function crookedHeaders({ operation }: Described): fc.Arbitrary<Record<string, string>> {
  const own = (operation.parameters ?? []).filter(({ in: where }) => where === "header");
  const value = fc.string({ unit: fc.constantFrom(..."abc019 -_\"';,=/"), maxLength: 300 });
  const fields = Object.fromEntries(
    own.map(({ name, schema }) => [name, fc.oneof(fc.constant(String(schema.example ?? "x")), value)]),
  );
  const types = fc.constantFrom(
    ...Array(40).fill("application/json"),
    "application/json; charset=utf-16",
    "text/plain",
    "application/x-ndjson",
    "multipart/form-data",
    "",
  );
  return fc.record(
    { ...fields, "content-type": types, "content-length": value },
    { requiredKeys: ["content-type"] },
  );
}

/** Every field that the body may have, whether the example has it or not. */
function fieldsOf({ operation }: Described): Place[] {
  const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
  return Object.keys(resolved(schema, document.components.schemas).properties ?? {}).map((name) => [name]);
}

function crookedBody(valid: unknown, fields: readonly Place[]): fc.Arbitrary<string> {
  const places = [...placesIn(valid), ...fields];
  const changed = fc
    .array(fc.tuple(fc.constantFrom(...places), fc.option(nasty, { nil: GONE })), {
      minLength: 0,
      maxLength: 3,
    })
    .map((changes) => changes.reduce((value, [place, to]) => replaced(value, place, to), valid));
  const text = changed.map((value) => JSON.stringify(value) ?? "");
  return fc.oneof(
    { weight: 24, arbitrary: text },
    fc.json(),
    fc.string({ unit: "binary" }),
    text.chain((whole) => fc.nat(whole.length).map((at) => whole.slice(0, at))),
    fc.constantFrom("", "[]", "null", '{"__proto__":{}}', `${"[".repeat(600)}`, "{}", "1e999"),
  );
}

const GONE = Symbol("left out");

type Place = readonly (string | number)[];

/** Every place in a value, and for each object one place that it lacks. */
function placesIn(value: unknown, at: Place = []): Place[] {
  if (typeof value !== "object" || value === null) return [at];
  const inner = Object.entries(value).flatMap(([name, field]) => placesIn(field, [...at, name]));
  return [...(at.length > 0 ? [at] : []), ...inner, [...at, "surplus"]];
}

function replaced(value: unknown, [step, ...rest]: Place, to: unknown): unknown {
  if (step === undefined) return to;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    return value.flatMap((entry, i) =>
      String(i) === step ? [replaced(entry, rest, to)].filter(isKept) : [entry],
    );
  }
  const inner = replaced((value as Record<string, unknown>)[step], rest, to);
  return Object.fromEntries(
    [...Object.entries({ ...value, [step]: inner })].filter(([, field]) => isKept(field)),
  );
}

function isKept(value: unknown): boolean {
  return value !== GONE;
}
