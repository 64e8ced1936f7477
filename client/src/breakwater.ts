/**
 * A typed client of Breakwater's API. Its types are generated from the OpenAPI document of the same version; requests
 * are made by openapi-fetch, the library that these types are made for.
 */
import createClient, { type Client } from "openapi-fetch";
import type { Problem, paths } from "./api.ts";
import { type RetryOptions, withRetries } from "./retries.ts";

export type * from "./api.ts";
export type { RetryOptions } from "./retries.ts";

export type BreakwaterOptions = Readonly<{
  /** Where the deployment is: `https://breakwater.example.com`. */
  url: string;
  /** An API key. */
  key: string;
  retries?: RetryOptions;
  /** In place of the global `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}>;

/**
 * `GET`, `POST` and so on take a path of the API and resolve to `{ data, error, response }`, where `error` is a problem
 * document (RFC 9457). They reject only when there is no response at all.
 */
export type Breakwater = Client<paths> &
  Readonly<{
    /** All entries of a list, page by page as they are consumed. @throws ProblemError */
    list<P extends ListPath>(path: P, query?: ListQuery<P>): AsyncGenerator<ListEntry<P>, void>;
    /** The pages of a list; one may be empty and not the last. @throws ProblemError */
    pages<P extends ListPath>(path: P, query?: ListQuery<P>): AsyncGenerator<ListPage<P>, void>;
  }>;

/** A client of the deployment. Posts of events have a new idempotency key each, unless they are given one. */
export function breakwaterClient({ url, key, retries, fetch: send }: BreakwaterOptions): Breakwater {
  const client = createClient<paths>({
    baseUrl: url,
    headers: { authorization: `Bearer ${key}` },
    // A global that is replaced later is used, and browsers demand that `fetch` is not called as a method.
    fetch: withRetries(send ?? ((request) => fetch(request)), retries),
  });
  client.use({
    onRequest({ request, schemaPath }) {
      const isPost = request.method === "POST" && ["/v1/events", "/v1/events/batch"].includes(schemaPath);
      if (isPost && !request.headers.has("idempotency-key"))
        request.headers.set("idempotency-key", crypto.randomUUID());
    },
  });

  async function* pages<P extends ListPath>(path: P, query?: ListQuery<P>) {
    let cursor: string | null = null;
    do {
      const params = { query: { ...(query as object), ...(cursor !== null && { cursor }) } };
      // All list paths have these parameters and pages, which the compiler cannot see here: one stands for all.
      const page: ListPage<"/v1/keys"> = dataOf(await client.GET(path as "/v1/keys", { params }));
      yield page as unknown as ListPage<P>;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  async function* list<P extends ListPath>(path: P, query?: ListQuery<P>) {
    for await (const page of pages(path, query)) yield* (page as { data: ListEntry<P>[] }).data;
  }

  return { ...client, pages, list };
}

type JsonOf<P extends keyof paths> = paths[P] extends {
  get: { responses: { 200: { content: { "application/json": infer T } } } };
}
  ? T
  : never;

/** The paths of lists, which have pages. */
export type ListPath = {
  [P in keyof paths]: [JsonOf<P>] extends [never]
    ? never
    : JsonOf<P> extends { data: unknown[]; next_cursor: string | null }
      ? P
      : never;
}[keyof paths];

export type ListPage<P extends ListPath> = JsonOf<P>;

export type ListEntry<P extends ListPath> = JsonOf<P> extends { data: (infer T)[] } ? T : never;

/** The filters of a list, and `limit`: the size of a page. */
export type ListQuery<P extends ListPath> = paths[P] extends { get: { parameters: { query?: infer Q } } }
  ? Q
  : never;

type Result<T> = Readonly<{ data?: T; error?: unknown; response: Response }>;

/** The data of an answer. @throws ProblemError when the request was refused */
export function dataOf<T>({ data, error, response }: Result<T>): T {
  if (!response.ok) throw new ProblemError(problemOf(error, response), response);
  return data as T;
}

/** A refused request, as an error: its message is the problem's detail. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly problem: Problem;
  readonly response: Response;

  constructor(problem: Problem, response: Response) {
    super(problem.detail);
    this.problem = problem;
    this.response = response;
  }
}

const LONGEST_EXCERPT = 200;

/**
 * The body as a problem document. If an intermediary answered without one, it is made of the status and the beginning
 * of the body.
 */
function problemOf(error: unknown, { status, statusText }: Response): Problem {
  if (typeof error === "object" && error !== null && "detail" in error) return error as Problem;
  const title = statusText || `HTTP ${status}`;
  const text = typeof error === "string" ? error.trim().slice(0, LONGEST_EXCERPT) : "";
  return { type: "about:blank", title, status, detail: text ? `${title}: ${text}` : title };
}
