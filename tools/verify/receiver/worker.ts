/**
 * The receiver of `npm run verify`: endpoints that answer as configured, count the requests under way, and record every
 * request. A caller with the token controls it:
 *
 * - `GET /control`: that the token is right
 * - `PUT /control/<endpoint>`: the endpoint's script; it has no other effect than on later requests
 * - `GET /control/<endpoint>?from=<n>`: its requests from that number on
 *
 * Deliveries come to `/hooks/<endpoint>`. An endpoint without a script does not exist, so that strangers store nothing.
 */
import type { EndpointHit, EndpointReply, Script } from "../protocol.ts";

type Env = Readonly<{ TOKEN: string; ENDPOINTS: DurableObjectNamespace }>;

const TABLES = `
  CREATE TABLE IF NOT EXISTS script (id INTEGER PRIMARY KEY, json TEXT);
  CREATE TABLE IF NOT EXISTS hits (
    n INTEGER PRIMARY KEY, at INTEGER, answered_at INTEGER, status INTEGER, in_flight INTEGER, event TEXT,
    attempt INTEGER, timestamp TEXT, signature TEXT, body TEXT);
  CREATE INDEX IF NOT EXISTS hits_of_event ON hits (event);`;

const FOUND = `
  SELECT n, at, answered_at AS answeredAt, status, in_flight AS inFlight, event, attempt, timestamp, signature, body
  FROM hits WHERE n >= ? ORDER BY n LIMIT 1000`;

/** One endpoint. Its requests are in storage, because the object leaves memory soon after the last of them. */
export class Endpoint implements DurableObject {
  readonly #sql: SqlStorage;
  /** Counted in memory: as long as a request is under way, the object stays there. */
  #inFlight = 0;

  constructor(ctx: DurableObjectState) {
    this.#sql = ctx.storage.sql;
  }

  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname.startsWith("/hooks/")) return this.#receive(request);
    if (request.method === "PUT") {
      const script = await request.text();
      this.#sql.exec(TABLES);
      this.#sql.exec("INSERT OR REPLACE INTO script (id, json) VALUES (1, ?)", script);
      return new Response(null, { status: 204 });
    }
    const from = Number(searchParams.get("from") ?? 1);
    return Response.json({ hits: this.#isThere() ? this.#sql.exec<EndpointHit>(FOUND, from).toArray() : [] });
  }

  /** Whether it has a script. Until then it has no tables either: they would be stored under any name. */
  #isThere(): boolean {
    return this.#sql.exec("SELECT 1 FROM sqlite_schema WHERE name = 'script'").toArray().length > 0;
  }

  async #receive(request: Request): Promise<Response> {
    if (!this.#isThere()) return new Response("There is no such endpoint.", { status: 404 });
    const at = Date.now();
    this.#inFlight += 1;
    const inFlight = this.#inFlight;
    try {
      const body = await request.text();
      const { json } = this.#sql.exec<{ json: string }>("SELECT json FROM script").one();
      const n = this.#insert(request.headers, body, at, inFlight);
      const { status, afterMs = 0, headers = {} } = this.#replyTo(n, JSON.parse(json));
      if (afterMs > 0) await scheduler.wait(afterMs);
      this.#sql.exec("UPDATE hits SET answered_at = ?, status = ? WHERE n = ?", Date.now(), status, n);
      return new Response(null, { status, headers });
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Returns the hit's number. */
  #insert(headers: Headers, body: string, at: number, inFlight: number): number {
    const header = (name: string) => headers.get(`webhook-${name}`) ?? "";
    const { n } = this.#sql
      .exec<{ n: number }>(
        `INSERT INTO hits (at, in_flight, event, attempt, timestamp, signature, body)
         VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING n`,
        ...[at, inFlight, header("id"), Number(header("attempt")), header("timestamp")],
        ...[header("signature"), body],
      )
      .one();
    return n;
  }

  #replyTo(n: number, { per, replies }: Script): EndpointReply {
    const earlier =
      per === "request"
        ? n - 1
        : this.#sql
            .exec<{ count: number }>(
              "SELECT count(*) - 1 AS count FROM hits WHERE n <= ?1 AND event = (SELECT event FROM hits WHERE n = ?1)",
              n,
            )
            .one().count;
    return replies[Math.min(earlier, replies.length - 1)] ?? { status: 204 };
  }
}

export default {
  async fetch(request, env) {
    const [, area, endpoint] = new URL(request.url).pathname.split("/");
    if (area === "control" && !(await isToken(request.headers.get("authorization"), env.TOKEN)))
      return new Response("The token is not right.", { status: 401 });
    if ((area !== "control" && area !== "hooks") || !endpoint)
      return new Response("A receiver of Breakwater's npm run verify.", {
        status: area === "hooks" ? 404 : 200,
      });
    return env.ENDPOINTS.get(env.ENDPOINTS.idFromName(endpoint)).fetch(request);
  },
} satisfies ExportedHandler<Env>;

/** Compares digests, whose lengths are the same. */
async function isToken(given: string | null, token: string): Promise<boolean> {
  if (!token) return false;
  const digest = (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const [left, right] = await Promise.all([digest(given ?? ""), digest(`Bearer ${token}`)]);
  return crypto.subtle.timingSafeEqual(left, right);
}
