/**
 * Results of transformations, and the guards that every result has to pass: the request goes to the destination's own
 * origin, sets no header of Breakwater, breaks no line, and is not too large.
 */
import type { Payload } from "../content.ts";
import { HEADER_VALUE, MAX_HEADERS } from "../destination-fields.ts";
import { isTransformHeader, MEDIA_TYPE, methods, type TransformMethod } from "./template.ts";

/** A transformation's return value; null cancels the delivery. Parts that are left out stay as they are without the transformation. */
export type TransformOutput = Readonly<{
  body?: string | undefined;
  contentType?: string | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  method?: string | undefined;
  /** Appended to the URL's path, percent-encoded. */
  path?: string | undefined;
  /** Appended to the URL's query, percent-encoded and without `?`. */
  query?: string | undefined;
}> | null;

/** Why there is no result. */
export type TransformFault = Readonly<{
  /** The part at fault, such as `headers.x-order`. */
  field: string;
  fault: string;
  /** From 1, in the part. */
  line?: number | undefined;
  column?: number | undefined;
}>;

export type TransformedRequest = Readonly<{
  kind: "request";
  body: Uint8Array<ArrayBuffer>;
  contentType: string;
  /** In lower case. */
  headers: Readonly<Record<string, string>>;
  method: TransformMethod;
  path: string;
  query: string;
}>;

export type Transformed =
  | TransformedRequest
  | Readonly<{ kind: "cancelled" }>
  /** `passing`: it says nothing about the transformation, and the delivery is tried again soon. */
  | Readonly<{ kind: "fault"; fault: TransformFault; passing?: true }>;

/** Bytes of a body that is made. An event has at most half as many. */
const MOST_MADE_BYTES = 524_288;
const MOST_PATH = 1_024;
const MOST_QUERY_LENGTH = 2_048;

/**
 * The request, or the fault of the output.
 * @param otherwise the payload if the transformation sets none
 */
export function guardedRequest(
  made: TransformOutput,
  otherwise: () => Payload,
  encode: (text: string) => Uint8Array<ArrayBuffer>,
): Transformed {
  if (made === null) return { kind: "cancelled" };
  const { contentType = "application/json", method = "POST", path = "", query = "" } = made;
  const headers = Object.entries(made.headers ?? {}).filter(([, value]) => value !== "");
  const wrong = headers.find(([name, value]) => !isTransformHeader(name) || !HEADER_VALUE.test(value));
  const asMethod = methods.find((one) => one === method);
  if (asMethod === undefined) return fault("method", `is not one of ${methods.join(", ")}`);
  if (!MEDIA_TYPE.test(contentType)) return fault("content_type", "is not a media type");
  if (headers.length > MAX_HEADERS) return fault("headers", `are more than ${MAX_HEADERS}`);
  if (wrong) return fault(`headers.${wrong[0].slice(0, 100)}`, headerFault(wrong[0]));
  if (path !== "" && !isPathSuffix(path))
    return fault("path", "is not a path of printable ASCII characters without ?, #, \\ and dot segments");
  if (path.length > MOST_PATH) return fault("path", `is longer than ${MOST_PATH} characters`);
  if (!/^[!-~]*$/.test(query) || query.includes("#")) return fault("query", "is not percent-encoded");
  if (query.length > MOST_QUERY_LENGTH)
    return fault("query", `is longer than ${MOST_QUERY_LENGTH} characters`);
  const { body, contentType: type } =
    made.body === undefined ? otherwise() : { body: encode(made.body), contentType };
  if (body.byteLength > MOST_MADE_BYTES) return fault("body", `is larger than ${MOST_MADE_BYTES} bytes`);
  return {
    kind: "request",
    body,
    contentType: made.contentType ?? type,
    headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
    method: asMethod,
    path,
    query,
  };
}

function fault(field: string, text: string): Transformed {
  return { kind: "fault", fault: { field, fault: text } };
}

function headerFault(name: string): string {
  return isTransformHeader(name)
    ? "has line breaks, characters that are not ASCII, spaces around it, or is longer than 1024 characters"
    : "may not be set";
}

/** Whether a URL's path is the same with it at the end: no segment leads out of the path before it. */
function isPathSuffix(path: string): boolean {
  if (!/^\/[!-~]*$/.test(path) || /[\\?#]/.test(path)) return false;
  return !path.split("/").some((segment) => /^(\.|%2e){1,2}$/i.test(segment));
}

export function faultText({ field, fault, line, column }: TransformFault): string {
  const place =
    line === undefined ? "" : ` (line ${line}${column === undefined ? "" : `, column ${column}`})`;
  return `${field}${place}: ${fault}`;
}

/** A fault behind the name of its field. */
export function faultTextAlone(fault: TransformFault): string {
  return faultText({ ...fault, field: "" }).replace(/^[ :]+/, "");
}
