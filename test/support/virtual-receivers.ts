/**
 * Receivers in virtual time: a `fetch` that answers as scripted by destination, records every request, and notices
 * requests that should never have been made.
 */

import type { DatabaseSync } from "node:sqlite";
import type { Engine } from "../../bench/storm/engine.ts";
import { databaseNumberOf } from "../../src/core/placement.ts";
import { eventNumber } from "../../src/ids.ts";
import { hasEndedSql } from "./ended.ts";
import { textOf } from "./utf8.ts";

/** One request as it was made. `status` and `endedAt` are undefined until it has ended. */
export type Request = {
  readonly at: number;
  readonly destination: string;
  readonly event: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  status?: number;
  /** The error, if there was no answer. */
  error?: string;
  endedAt?: number;
};

type Parts = Readonly<{
  status: number;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Milliseconds from the request to the answer. */
  afterMs?: number;
}>;

/** A status, an answer in parts, no answer, a network error, or a function of the request that returns one of these. */
export type Answer = number | Parts | "hang" | Error | ((request: Request) => Answer);

export type VirtualReceivers = Readonly<{
  fetch: typeof fetch;
  requests: readonly Request[];
  script: (destination: string, ...answers: Answer[]) => void;
  /** The requests that should never have been made, in sentences. */
  broken: () => string[];
}>;

/** How long an answer takes when the script does not say. */
const USUAL_MS = [20, 80] as const;
/**
 * A request that another invocation is about to make when a hold is requested is not stopped; holders of long leases
 * learn of the hold within a second plus a few round trips.
 */
const NEWS_MS = 4_000;

type Target = Readonly<{ id: string; max: number }>;
type Hold = Readonly<{ from: number; until: number }>;

/** @param databases returns all databases, when the first request comes */
export function virtualReceivers(engine: Engine, databases: () => readonly DatabaseSync[]): VirtualReceivers {
  const requests: Request[] = [];
  const scripts = new Map<string, Answer[]>();
  const attempts = new Map<string, number>();
  const open = new Map<string, number>();
  const holds = new Map<string, Hold>();
  const broken = new Set<string>();
  let prepared: ReturnType<typeof statementsOf> | undefined;

  const statements = () => {
    prepared ??= statementsOf(databases());
    return prepared;
  };

  function targetOf(url: string): Target {
    const found = statements().target.get(url) as Target | undefined;
    if (!found) throw new Error(`No destination has the URL ${url}`);
    return found;
  }

  function begin(url: string, init: RequestInit): Request {
    const { id, max } = targetOf(url);
    const headers = init.headers as Record<string, string>;
    const event = eventNumber(headers["webhook-id"] ?? "") ?? 0;
    const key = `${event} ${id}`;
    const attempt = (attempts.get(key) ?? 0) + 1;
    attempts.set(key, attempt);
    const request = { at: engine.now(), destination: id, event, attempt, headers, body: textOf(init.body) };
    requests.push(request);
    const now = (open.get(id) ?? 0) + 1;
    open.set(id, now);
    if (now > max) broken.add(`${id} had ${now} requests in flight, and takes ${max}`);
    if (statements().ended[databaseNumberOf(event)]?.get(event, id)?.ended === 1)
      broken.add(`${key} was sent after it had ended`);
    checkHold(request, key);
    return request;
  }

  /** Checks that no request is for a delivery on hold, nor for any other of its destination once the hold is known. */
  function checkHold({ at, destination, attempt }: Request, key: string): void {
    const own = holds.get(key);
    if (own && at < own.until)
      broken.add(`${key} was sent ${own.until - at} ms earlier than asked (${attempt})`);
    const all = holds.get(destination);
    if (all && at > all.from + NEWS_MS && at < all.until)
      broken.add(`${destination} got a request ${all.until - at} ms earlier than asked`);
  }

  function end(request: Request, what: Partial<Request>): void {
    if (request.endedAt !== undefined) return;
    Object.assign(request, what, { endedAt: engine.now() });
    open.set(request.destination, (open.get(request.destination) ?? 1) - 1);
  }

  function next(destination: string): Answer {
    const left = scripts.get(destination) ?? [204];
    return (left.length > 1 ? left.shift() : left[0]) ?? 204;
  }

  async function play(request: Request, answer: Answer): Promise<Response> {
    if (typeof answer === "function") return play(request, answer(request));
    if (answer === "hang") return new Promise(() => {});
    const parts = typeof answer === "number" ? { status: answer } : answer;
    const [least, most] = USUAL_MS;
    const usual = least + engine.random() * (most - least);
    await engine.sleep(parts instanceof Error ? usual : (parts.afterMs ?? usual));
    if (parts instanceof Error) throw parts;
    return responseOf(parts);
  }

  async function fetched(url: unknown, init: RequestInit = {}): Promise<Response> {
    const request = begin(String(url), init);
    try {
      const answered = play(request, next(request.destination));
      const response = await (init.signal ? Promise.race([answered, aborted(init.signal)]) : answered);
      end(request, { status: response.status });
      noteHold(request, response);
      return response;
    } catch (error) {
      end(request, { error: String(error) });
      throw error;
    }
  }

  function noteHold({ destination, event }: Request, { status, headers }: Response): void {
    const seconds = Number(headers.get("retry-after") ?? Number.NaN);
    if ((status !== 429 && status !== 503) || !(seconds > 0)) return;
    const from = engine.now();
    const until = from + seconds * 1000;
    holds.set(`${event} ${destination}`, { from, until });
    const before = holds.get(destination);
    if (!before || before.until < until) holds.set(destination, { from, until });
  }

  return {
    fetch: fetched as typeof fetch,
    requests,
    script: (destination, ...answers) => void scripts.set(destination, answers),
    broken: () => [...broken],
  };
}

function statementsOf(databases: readonly DatabaseSync[]) {
  const [first] = databases;
  if (first === undefined) throw new Error("There is no database");
  // A request identifies its destination by URL only, and a world may have a thousand.
  first.exec("CREATE INDEX destinations_by_url ON destinations (url)");
  return {
    target: first.prepare(
      "SELECT id, max_concurrency AS max FROM destinations WHERE url = ? ORDER BY deleted_at",
    ),
    ended: databases.map((db) => db.prepare(`SELECT ${hasEndedSql("?1", "?2")} AS ended`)),
  };
}

/** The part of a response that the client reads; a real one would cost the simulation ten times as much. */
function responseOf({ status, headers = {}, body }: Parts): Response {
  if (body !== undefined) return new Response(body, { status, headers });
  const named = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const get = (name: string) => named.get(name.toLowerCase()) ?? null;
  return { status, ok: status >= 200 && status < 300, headers: { get }, body: null } as unknown as Response;
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, fail) => {
    signal.addEventListener("abort", () => fail(signal.reason));
  });
}
