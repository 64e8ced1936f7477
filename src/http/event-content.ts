/**
 * An event that is posted as content of its own type: the request's body is the content, to the byte, and its query has
 * the event's other fields. Both become the body of the equivalent JSON request, so that the same schema and handler
 * take it.
 */
import type { MiddlewareHandler } from "hono";
import { Content } from "../core/content.ts";
import { atField } from "../core/result.ts";
import type { ApiContext, ApiEnv } from "./context.ts";
import { readWhole, replaceBody } from "./json-body.ts";
import { invalid, problem } from "./problems.ts";

/** Fields that are lists: the query names them once for each entry. */
const LISTS = ["tags", "channels", "destination_ids"];

/** The media type of content without a Content-Type (RFC 9110 section 8.3). */
const UNNAMED = "application/octet-stream";

/** RFC 9110 section 8.3.1, with parameters. */
const MEDIA_TYPE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+([ \t]*;[ -~\t]*)?$/;
const MOST_CHARACTERS = 255;
const TYPE_EXPECTED = `a media type of at most ${MOST_CHARACTERS} characters, such as application/xml`;
const NO_DATA = "none: with `type` in the query, the request's body is the content";

/**
 * Middleware: reads a request whose query names a `type`; any other is left to `otherwise`.
 * @param maxBytes of the content
 */
export function eventContent(
  maxBytes: number,
  otherwise: MiddlewareHandler<ApiEnv>,
): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const { data, ...fields } = c.req.query();
    if (fields.type === undefined) return refuseEventFields(fields) ?? otherwise(c, next);
    const lists = Object.fromEntries(
      LISTS.flatMap((name) => (name in fields ? [[name, c.req.queries(name)]] : [])),
    );
    const ttl = fields.ttl !== undefined && {
      ttl: /^\d+$/.test(fields.ttl) ? Number(fields.ttl) : fields.ttl,
    };
    const contentType = c.req.header("content-type") ?? UNNAMED;
    if (data !== undefined) return invalid([atField("data", "is in the query", NO_DATA)]);
    if (!isMediaType(contentType))
      return invalid([atField("content-type", "is not a media type", TYPE_EXPECTED)]);
    const content = await contentOf(c, contentType, maxBytes);
    if (content === undefined) return problem(413, `The body is larger than ${maxBytes} bytes.`);
    if (content.bytes.byteLength === 0)
      return problem(400, "The body is missing; expected the event's content");
    replaceBody(c, { ...fields, ...lists, ...ttl, data: content });
    return next();
  };
}

/** Fields of an event that the query has beside its type. */
const OTHER_FIELDS = ["tenant", "deliver_at", "ttl", ...LISTS];

/** Middleware: refuses fields that are only read from the body, so that no event goes to another tenant than intended. */
export const noEventFields: MiddlewareHandler<ApiEnv> = async (c, next) =>
  refuseEventFields(c.req.query()) ?? next();

function refuseEventFields(query: Readonly<Record<string, string>>) {
  const field = OTHER_FIELDS.find((name) => name in query);
  const expected = "it in the body, with the rest of the event: the query is read only with `type` in it";
  return field === undefined ? undefined : invalid([atField(field, "is in the query", expected)]);
}

/** Whether it can be the Content-Type of an event. */
export function isMediaType(given: string): boolean {
  return given.length <= MOST_CHARACTERS && MEDIA_TYPE.test(given);
}

async function contentOf(c: ApiContext, contentType: string, maxBytes: number): Promise<Content | undefined> {
  const bytes = await readWhole(c.req.raw, maxBytes);
  return bytes && new Content(contentType, bytes);
}
