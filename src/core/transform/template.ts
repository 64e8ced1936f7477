/**
 * Transformation templates, which replace the event as it is. Texts in Liquid (liquid.ts) for the body, headers, path
 * and query, and a fixed content type and method.
 */
import { HEADER_NAME, isReserved, MAX_HEADERS } from "../destination-fields.ts";
import { optionalShape, type Shape, type ShapeFault, type ShapeType } from "../shape.ts";

export const methods = ["POST", "PUT", "PATCH"] as const;
export type TransformMethod = (typeof methods)[number];

/** Characters of a template's body, and of each of its other texts. */
export const MOST_TEMPLATE = 16_000;
const MOST_TEXT = 1_000;
const MOST_QUERY = 20;

/** RFC 9110 section 8.3.1, with parameters. */
export const MEDIA_TYPE =
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}([ \t]*;[ -~\t]{0,100})?$/;

const liquid = {
  kind: "text",
  max: MOST_TEXT,
  expected: `a text of at most ${MOST_TEXT} characters`,
} as const;

const HEADERS_EXPECTED = `expected at most ${MAX_HEADERS} names of headers that Breakwater does not set itself, and their texts`;
const QUERY_EXPECTED = `expected at most ${MOST_QUERY} names of 1 to 100 characters, and their texts`;

function namesFaults(most: number, isName: (name: string) => boolean, message: string) {
  return (value: unknown): ShapeFault[] => {
    const names = Object.keys(value as object);
    const wrong = names.filter((name) => !isName(name)).map((name) => ({ path: [name], message }));
    return names.length > most ? [...wrong, { path: [], message }] : wrong;
  };
}

/** Whether a template may set the header. */
export function isTransformHeader(name: string): boolean {
  return HEADER_NAME.test(name) && !isReserved(name.toLowerCase());
}

export const templateShape = {
  kind: "object",
  fields: {
    body: optionalShape(
      { kind: "text", max: MOST_TEMPLATE, expected: `a text of at most ${MOST_TEMPLATE} characters` },
      "The body, a text in Liquid. In JSON, its strings are filled in one by one and need no escaping. If omitted, " +
        "the event, as the destination's `body` says.",
    ),
    content_type: optionalShape(
      { kind: "text", pattern: MEDIA_TYPE, expected: "a media type such as application/json" },
      "`application/json` unless given.",
    ),
    headers: optionalShape(
      { kind: "record", of: liquid, faults: namesFaults(MAX_HEADERS, isTransformHeader, HEADERS_EXPECTED) },
      "Headers by name, each a text in Liquid. An empty one is not sent.",
    ),
    method: optionalShape({ kind: "choice", values: methods }, "`POST` unless given."),
    path: optionalShape(
      {
        kind: "text",
        max: MOST_TEXT,
        pattern: /^\//,
        expected: `a text that begins with /, of at most ${MOST_TEXT} characters`,
      },
      "Appended to the URL's path, a text in Liquid; filled-in values are percent-encoded.",
    ),
    query: optionalShape(
      {
        kind: "record",
        of: liquid,
        faults: namesFaults(MOST_QUERY, (name) => /^.{1,100}$/s.test(name), QUERY_EXPECTED),
      },
      "Parameters that are added to the URL's query, by name. An empty one is not sent.",
    ),
  },
} as const satisfies Shape;

export type TransformTemplate = Readonly<ShapeType<typeof templateShape>>;

export function isJsonType(contentType: string): boolean {
  return /^[^;]*[/+]json\s*(;|$)/i.test(contentType);
}

export function isFormType(contentType: string): boolean {
  return /^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType);
}
