/**
 * The webhooks of an OpenAPI document as event types: those under `webhooks` (3.1) and `x-webhooks` (3.0), each named by
 * its key. Their schemas become schemas of the catalogue (core/json-schema.ts): what they refer to is taken along under
 * `$defs`, the spelling of OpenAPI 3.0 is translated, and annotations that only OpenAPI knows are left out.
 *
 * A document comes from outside, so nothing in it costs more than a bound: references lead to places of the document
 * itself, through ten others at most, and each is taken along once.
 */
import { isFormat } from "../../core/json-formats.ts";
import { APPLICATORS, type JsonSchema } from "../../core/json-schema.ts";
import { dataFaults } from "../../core/json-schema-check.ts";
import { faultOfValue, isJsonObject, withPlainNumbers } from "../../core/json-value.ts";
import { MOST_TEMPLATE } from "../../core/transform/template.ts";
import { EVENT_TYPE_WORDS, eventType } from "../parameters.ts";
import { faultsOfSchema } from "./service.ts";

export type WebhookType = Readonly<{
  name: string;
  description: string;
  deprecated: boolean;
  /** Undefined where the document has none. */
  schema: JsonSchema | undefined;
  example: unknown;
  /** To the version before, where the schema is that of another version than the newest. */
  conversion: string | undefined;
  /** Where the document has the conversion, or would have it, as a JSON Pointer. */
  conversionAt: string;
}>;

type WebhookFault = Readonly<{
  /** Where it is, as a JSON Pointer into the document. */
  pointer: string;
  fault: string;
  expected: string;
}>;

/** Webhooks of one document, references on the way to one value, and schemas that one schema refers to. */
const MOST_WEBHOOKS = 500;
const MOST_HOPS = 10;
const MOST_DEFINITIONS = 100;
/** Levels of values within values: more than a schema of the catalogue may have. */
const MAX_DEPTH = 64;
const MAX_FAULTS = 20;

type Json = Readonly<Record<string, unknown>>;

/**
 * The event types of a document, in its order, or what is wrong with it.
 * @param document may have numbers as they were written, which schemas and examples keep
 */
export function webhooksIn(document: Json): readonly WebhookType[] | readonly WebhookFault[] {
  const maps = (["webhooks", "x-webhooks"] as const).flatMap((key) =>
    document[key] === undefined ? [] : [[key, document[key]] as const],
  );
  const odd = maps.find(([, map]) => !isJsonObject(map));
  if (odd) return [faultAt([odd[0]], "is not an object", "webhooks by their names")];
  const items = new Map(maps.flatMap(([key, map]) => namesIn(key, map as Json)));
  if (items.size === 0) return [faultAt([], "has no webhooks", "some under webhooks or x-webhooks")];
  if (items.size > MOST_WEBHOOKS)
    return [faultAt(["webhooks"], `has ${items.size} webhooks`, `at most ${MOST_WEBHOOKS}`)];
  const types: WebhookType[] = [];
  const faults: WebhookFault[] = [];
  for (const [name, path] of items) {
    const read = readWebhook(document, name, path);
    if ("name" in read) types.push(read);
    else faults.push(...read);
    if (faults.length >= MAX_FAULTS) break;
  }
  return faults.length > 0 ? faults.slice(0, MAX_FAULTS) : types;
}

export function isFaulty(
  read: readonly WebhookType[] | readonly WebhookFault[],
): read is readonly WebhookFault[] {
  return read[0] !== undefined && "fault" in read[0];
}

type Path = readonly string[];

function namesIn(key: string, map: Json): [name: string, path: Path][] {
  return Object.keys(map).map((name) => [name, [key, name]]);
}

/** The webhook of that name, whose path item is at that place. */
function readWebhook(document: Json, name: string, path: Path): WebhookType | WebhookFault[] {
  if (!eventType.safeParse(name).success)
    return [faultAt(path, "is not a valid name of an event type", EVENT_TYPE_WORDS)];
  const item = follow(document, path);
  if ("fault" in item) return [item];
  const operation = step(document, item, "post");
  if ("fault" in operation) return [operation];
  const { value: post } = operation;
  if (!isJsonObject(post))
    return [faultAt(operation.path, "is missing", "the operation that receives the webhook")];
  const description = [post.description, post.summary, (item.value as Json).description].find(
    (one) => typeof one === "string",
  );
  const text = typeof description === "string" ? description : "";
  if (text.length > MAX_DESCRIPTION)
    return [faultAt(operation.path, LONG_DESCRIPTION(text.length), `at most ${MAX_DESCRIPTION}`)];
  const conversionAt = pointerOf([...operation.path, CONVERSION]);
  const conversion = post[CONVERSION];
  if (conversion !== undefined && !isConversion(conversion))
    return [{ pointer: conversionAt, fault: faultOfValue(conversion), expected: CONVERSION_EXPECTED }];
  const content = contentOf(document, operation);
  if ("fault" in content) return [content];
  const base = { name, description: text, deprecated: post.deprecated === true, conversion, conversionAt };
  if (!isJsonObject(content.value)) return { ...base, schema: undefined, example: undefined };
  return withSchema(document, base, { path: content.path, value: content.value });
}

/** The extension of the operation that has the conversion. */
const CONVERSION = "x-breakwater-conversion";
const CONVERSION_EXPECTED = `a text of 1 to ${MOST_TEMPLATE} characters`;

function isConversion(value: unknown): value is string {
  return typeof value === "string" && value.length >= 1 && value.length <= MOST_TEMPLATE;
}

const MAX_DESCRIPTION = 1_000;
const LONG_DESCRIPTION = (length: number) => `has a description of ${length} characters`;
/** Characters of a key that are kept. */
const MAX_KEY = 128;

/** The media type of the body that is JSON; its value is undefined if there is none. */
function contentOf(document: Json, operation: Place): Place | WebhookFault {
  const body = step(document, operation, "requestBody");
  if ("fault" in body || body.value === undefined) return body;
  const content = step(document, body, "content");
  if ("fault" in content || content.value === undefined) return content;
  const type = Object.keys(content.value as Json).find((one) =>
    /^application\/([\w.-]+\+)?json\b/i.test(one),
  );
  return type === undefined ? { path: content.path, value: undefined } : step(document, content, type);
}

type Base = Omit<WebhookType, "schema" | "example">;

function withSchema(document: Json, base: Base, media: Place): WebhookType | WebhookFault[] {
  const { value } = media as { value: Json };
  const from = [...media.path, "schema"];
  const example = exampleIn(document, media);
  if ("fault" in example) return [example];
  if (value.schema === undefined) return { ...base, schema: undefined, example: example.value };
  const converted = converting(document, value.schema, from);
  if (Array.isArray(converted)) return converted;
  const { schema } = converted as { schema: JsonSchema };
  const faults = faultsOfSchema(JSON.stringify(schema)).map(({ pointer, ...rest }) =>
    placed(from, pointer, rest),
  );
  if (faults.length > 0) return faults;
  const shape = withPlainNumbers(schema) as JsonSchema;
  const unfit = example.value === undefined ? [] : dataFaults(shape, withPlainNumbers(example.value));
  if (unfit.length > 0) return unfit.map(({ pointer, ...rest }) => placed(example.path, pointer, rest));
  return { ...base, schema, example: example.value };
}

/** The example of the media type: `example`, else the first of `examples`. */
function exampleIn(document: Json, media: Place): Place | WebhookFault {
  const { example, examples } = media.value as Json;
  if (example !== undefined) return { path: [...media.path, "example"], value: example };
  const [first] = isJsonObject(examples) ? Object.keys(examples) : [];
  if (first === undefined) return { path: media.path, value: undefined };
  const entry = follow(document, [...media.path, "examples", first]);
  if ("fault" in entry) return entry;
  return { path: [...entry.path, "value"], value: isJsonObject(entry.value) ? entry.value.value : undefined };
}

// ── Places of the document ──

/** A value, and where it is. */
type Place = Readonly<{ path: Path; value: unknown }>;

/** The value of a key, with references followed; undefined if there is none, a fault if it is not an object. */
function step(document: Json, { path, value }: Place, key: string): Place | WebhookFault {
  const to = [...path, key];
  if (!isJsonObject(value) || !Object.hasOwn(value, key)) return { path: to, value: undefined };
  return follow(document, to);
}

/** The object at a place, or where it refers to. */
function follow(document: Json, path: Path): Place | WebhookFault {
  let at = path;
  for (let hops = 0; hops <= MOST_HOPS; hops++) {
    const value = valueAt(document, at);
    if (!isJsonObject(value))
      return faultAt(at, value === undefined ? "is missing" : "is not an object", "an object");
    if (value.$ref === undefined) return { path: at, value };
    const to = pathOf(value.$ref);
    if (to === undefined) return faultAt([...at, "$ref"], ...ELSEWHERE);
    at = to;
  }
  return faultAt(path, `refers through more than ${MOST_HOPS} others`, "fewer references");
}

const ELSEWHERE = ["leads elsewhere", "# and a place in this document: others are not fetched"] as const;

/** The place of a reference such as `#/components/schemas/Order` (RFC 6901); undefined for any other. */
function pathOf(ref: unknown): Path | undefined {
  if (typeof ref !== "string" || !ref.startsWith("#/")) return undefined;
  try {
    return ref
      .slice(2)
      .split("/")
      .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
  } catch {
    return undefined;
  }
}

function valueAt(document: Json, path: Path): unknown {
  let value: unknown = document;
  for (const key of path) {
    const isHere = typeof value === "object" && value !== null && Object.hasOwn(value, key);
    if (!isHere) return undefined;
    value = (value as Json)[key];
  }
  return value;
}

function faultAt(path: Path, fault: string, expected: string): WebhookFault {
  return { pointer: pointerOf(path), fault, expected };
}

function placed(path: Path, pointer: string, rest: Pick<WebhookFault, "fault" | "expected">): WebhookFault {
  return { pointer: pointerOf(path) + pointer, ...rest };
}

/** Long keys are cut, because an answer does not repeat a document. An ellipsis marks them: others may begin in the same way. */
function pointerOf(path: Path): string {
  return path
    .map((part) => (part.length > MAX_KEY ? `${part.slice(0, MAX_KEY)}…` : part))
    .map((part) => `/${part.replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}

// ── Schemas ──

/** A schema that is being translated: the names of what it refers to, by the place in the document (`keyOf`). */
type Translation = {
  readonly names: Map<string, string>;
  readonly waiting: Path[];
  readonly faults: WebhookFault[];
};

/** The schema with everything it refers to under `$defs`, or what is wrong. */
function converting(document: Json, given: unknown, from: Path): { schema: unknown } | WebhookFault[] {
  const translation: Translation = { names: new Map(), waiting: [], faults: [] };
  const schema = translated(translation, given, from, 0);
  const definitions = new Map<string, unknown>();
  for (let path = translation.waiting.shift(); path; path = translation.waiting.shift()) {
    const value = valueAt(document, path);
    if (value === undefined)
      translation.faults.push(faultAt(path, "is missing", "what a reference leads to"));
    const name = translation.names.get(keyOf(path)) ?? "";
    definitions.set(name, translated(translation, value, path, 0));
    if (translation.names.size > MOST_DEFINITIONS) {
      const fault = `refers to more than ${MOST_DEFINITIONS} schemas`;
      return [faultAt(from, fault, `at most ${MOST_DEFINITIONS}`)];
    }
  }
  if (translation.faults.length > 0) return translation.faults;
  if (definitions.size === 0 || !isJsonObject(schema)) return { schema };
  return { schema: { ...schema, $defs: Object.fromEntries(definitions) } };
}

/** Annotations of OpenAPI that do not restrict the data. */
const ANNOTATIONS = new Set(["discriminator", "xml", "externalDocs", "nullable"]);

function translated(translation: Translation, given: unknown, path: Path, depth: number): unknown {
  if (depth > MAX_DEPTH) {
    translation.faults.push(faultAt(path, "is nested too deep", `at most ${MAX_DEPTH} levels`));
    return true;
  }
  if (!isJsonObject(given)) return given;
  const entries = Object.entries(given).flatMap(([keyword, value]): [string, unknown][] => {
    if (ANNOTATIONS.has(keyword) || keyword.startsWith("x-")) return [];
    if (keyword === "format" && typeof value === "string" && !isFormat(value)) return [];
    const at = [...path, keyword];
    return [[keyword, translatedValue(translation, keyword, value, at, depth)]];
  });
  return spelledAnew(Object.fromEntries(entries), given.nullable === true);
}

function translatedValue(translation: Translation, keyword: string, value: unknown, at: Path, depth: number) {
  if (keyword === "$ref") return reference(translation, value, at);
  const child = APPLICATORS[keyword]?.child;
  const one = (inner: unknown, key: string | undefined) =>
    translated(translation, inner, key === undefined ? at : [...at, key], depth + 1);
  if (child === "schema") return one(value, undefined);
  if (child === "list" && Array.isArray(value)) return value.map((inner, i) => one(inner, String(i)));
  if (child === "map" && isJsonObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, one(inner, key)]));
  return value;
}

/** The reference under `$defs`; the schema that it leads to is translated after this one. */
function reference(translation: Translation, ref: unknown, at: Path): unknown {
  const to = pathOf(ref);
  if (to === undefined) {
    translation.faults.push(faultAt(at, ...ELSEWHERE));
    return ref;
  }
  const known = translation.names.get(keyOf(to));
  const name = known ?? nameFor(translation, to.at(-1) ?? "");
  if (known === undefined) {
    translation.names.set(keyOf(to), name);
    translation.waiting.push(to);
  }
  return `#/$defs/${name}`;
}

/** A place as a key: unlike a pointer that is shown, it is never cut. */
function keyOf(path: Path): string {
  return JSON.stringify(path);
}

/** The last step of the place, with a number where another has that name. */
function nameFor({ names }: Translation, step: string): string {
  const plain = step.replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, MAX_KEY) || "schema";
  const taken = new Set(names.values());
  let name = plain;
  for (let n = names.size; taken.has(name); n++) name = `${plain}_${n}`;
  return name;
}

/** Translates the spellings of OpenAPI 3.0 to JSON Schema. */
function spelledAnew(schema: Record<string, unknown>, isNullable: boolean): unknown {
  for (const [flag, limit] of [
    ["exclusiveMinimum", "minimum"],
    ["exclusiveMaximum", "maximum"],
  ] as const) {
    if (typeof schema[flag] !== "boolean") continue;
    const { [flag]: isExclusive, [limit]: bound } = schema;
    delete schema[flag];
    if (isExclusive === true && bound !== undefined) {
      delete schema[limit];
      schema[flag] = bound;
    }
  }
  if (!isNullable) return schema;
  if (typeof schema.type !== "string" || schema.$ref !== undefined)
    return { anyOf: [schema, { type: "null" }] };
  const values = Array.isArray(schema.enum) ? { enum: [...new Set([...schema.enum, null])] } : {};
  return { ...schema, type: [schema.type, "null"], ...values };
}
