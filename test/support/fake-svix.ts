/**
 * A server with the parts of the Svix API that an import uses: for answers that Breakwater's own API never gives, such
 * as transformations and short pages. It stores what it is given, and refuses a `uid` that is taken.
 */
import type { AddressInfo } from "node:net";
import { parseExactly } from "../../src/core/json-value.ts";
import { localServer } from "./local-server.ts";

type Json = Record<string, unknown>;

export type FakeEndpoint = {
  id: string;
  secret: string;
  headers: Record<string, string>;
  sensitive: string[];
  /** Extras by the name of the route: "transformation". */
  extras: Record<string, Json>;
  /** Further fields that the list shows. */
  shown: Json;
};

export type FakeApplication = { id: string; shown: Json; endpoints: FakeEndpoint[] };

export const TOKEN = "testsk_source-token.eu";

export function secretOf(text: string): string {
  return `whsec_${Buffer.from(text.padEnd(24, "-")).toString("base64")}`;
}

export function fakeEndpoint(
  id: string,
  shown: Json = {},
  others: Partial<Omit<FakeEndpoint, "id" | "shown">> = {},
): FakeEndpoint {
  const base = { secret: secretOf(id), headers: {}, sensitive: [], extras: {} };
  return { ...base, ...others, id, shown: { url: `https://example.com/${id}`, ...shown } };
}

export function fakeApplication(id: string, shown: Json = {}, endpoints: FakeEndpoint[] = []) {
  return { id, shown: { name: id, ...shown }, endpoints } satisfies FakeApplication;
}

export class FakeSvix {
  applications: FakeApplication[] = [];
  eventTypes: Json[] = [];
  operationalWebhooks: Json[] = [];
  token = TOKEN;
  /** Entries of a page, whatever limit is requested. */
  pageSize = 2;
  /** Answers instead of the server; undefined lets the server answer. */
  before: (request: Request, path: string) => Promise<Response | undefined> | Response | undefined = () =>
    undefined;
  /** Every request, as `GET /api/v1/app`. */
  readonly requests: string[] = [];
  /** Its OpenAPI document, by which Breakwater shows that it takes channels. */
  document: Json | undefined;
  #made = 0;

  fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const { pathname } = new URL(request.url);
    this.requests.push(`${request.method} ${pathname}`);
    const answer = (await this.before(request, pathname)) ?? (await this.#answer(request));
    return answer;
  };

  async #answer(request: Request): Promise<Response> {
    if (request.headers.get("authorization") !== `Bearer ${this.token}`) return refused(401, "Invalid token");
    const url = new URL(request.url);
    if (url.pathname === "/openapi.json") return this.document ? Response.json(this.document) : refused(404);
    const [what, app, , endpoint, detail, rotate] = url.pathname
      .replace("/api/v1/", "")
      .split("/")
      .map(decodeURIComponent);
    const text = await request.text();
    const body = text === "" ? {} : (parseExactly(text) as Json);
    if (what === "event-type") return this.#eventTypes(request.method, app, body, url);
    if (what === "operational-webhook") return this.#page(this.operationalWebhooks, url);
    if (what !== "app") return refused(404);
    if (app === undefined) return this.#collection(request.method, this.applications, body, url);
    const application = this.applications.find(({ id, shown }) => id === app || shown.uid === app);
    if (application === undefined) return refused(404, `There is no application ${app}`);
    if (!url.pathname.includes("/endpoint")) return changed(application, request.method, body);
    if (endpoint === undefined) return this.#collection(request.method, application.endpoints, body, url);
    const found = application.endpoints.find(({ id, shown }) => id === endpoint || shown.uid === endpoint);
    if (found === undefined) return refused(404, `There is no endpoint ${endpoint}`);
    if (rotate === "rotate") {
      found.secret = String(body.key);
      return new Response(null, { status: 204 });
    }
    if (detail === undefined) return changed(found, request.method, body);
    if (detail === "secret") return Response.json({ key: found.secret });
    if (detail === "headers") {
      if (request.method === "GET")
        return Response.json({ headers: found.headers, sensitive: found.sensitive });
      Object.assign(found.headers, body.headers);
      return new Response(null, { status: 204 });
    }
    return found.extras[detail] ? Response.json(found.extras[detail]) : refused(404);
  }

  #collection(method: string, list: (FakeApplication | FakeEndpoint)[], body: Json, url: URL): Response {
    if (method === "GET") return this.#page(list.map(view), url);
    const { secret, headers, ...shown } = body;
    if (list.some((one) => one.shown.uid === body.uid)) return refused(409, "The uid is taken");
    this.#made += 1;
    const id = `made_${this.#made}`;
    const made =
      list === (this.applications as unknown)
        ? fakeApplication(id, shown)
        : fakeEndpoint(id, shown, {
            secret: String(secret),
            headers: (headers ?? {}) as Record<string, string>,
          });
    list.push(made);
    return Response.json(view(made), { status: 201 });
  }

  #eventTypes(method: string, name: string | undefined, body: Json, url: URL): Response {
    if (method === "GET") return this.#page(this.eventTypes, url);
    this.eventTypes = [...this.eventTypes.filter((type) => type.name !== name), { name, ...body }];
    return Response.json({ name, ...body });
  }

  #page(all: readonly Json[], url: URL): Response {
    const from = Number(url.searchParams.get("iterator") ?? 0);
    const next = from + this.pageSize;
    const data = all.slice(from, next);
    return Response.json({
      data,
      iterator: data.length > 0 ? String(next) : null,
      prevIterator: null,
      done: next >= all.length,
    });
  }
}

function view({ id, shown }: FakeApplication | FakeEndpoint): Json {
  const at = { createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" };
  return { id, uid: null, metadata: {}, ...at, ...shown };
}

function changed(one: FakeApplication | FakeEndpoint, method: string, body: Json): Response {
  if (method === "PATCH") Object.assign(one.shown, body);
  return Response.json(view(one));
}

function refused(status: number, detail = "Not found"): Response {
  return Response.json({ code: "error", detail }, { status });
}

/** Serves the fake on a port of this machine. */
export async function serveFake(fake: FakeSvix): Promise<Readonly<{ url: string; stop: () => void }>> {
  const server = localServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "GET", url = "/", headers } = request;
    const answer = await fake.fetch(`http://127.0.0.1${url}`, {
      method,
      headers: { authorization: headers.authorization ?? "" },
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    });
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
