/**
 * The deployment as a check uses it: its public API, and a tenant created for the run. Requests are repeated where the
 * documentation says so.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { AcceptedEvent, AcceptedEvents, DestinationHealth, Health } from "../../client/src/api.ts";
import { parsedJson } from "../../src/core/json-value.ts";
import { errorMessage } from "./receiver.ts";

type ApiAnswer = Readonly<{
  status: number;
  headers: Headers;
  text: string;
  /** Undefined when the body is not JSON. */
  json: unknown;
  /** The time from the request until the body has arrived. */
  tookMs: number;
}>;

export type VerifiedDestination = Readonly<{ id: string; secret: string; type: string }>;

const API_TIMEOUT_MS = 30_000;
/** How long a request that is answered 429 or 503, or not at all, is repeated. */
const REPEATED_MS = 60_000;
const LONGEST_PAUSE_S = 10;

export class DeploymentUnderTest {
  readonly url: URL;
  readonly tenant: string;
  readonly #key: string;

  constructor(url: URL, key: string, tenant: string) {
    this.url = url;
    this.#key = key;
    this.tenant = tenant;
  }

  /** One request; rejects when there is no answer. */
  async request(
    method: string,
    path: string,
    body?: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ApiAnswer> {
    const startedAt = performance.now();
    const response = await fetch(new URL(path, this.url), {
      method,
      redirect: "manual",
      headers: { authorization: `Bearer ${this.#key}`, "content-type": "application/json", ...headers },
      signal: AbortSignal.timeout(API_TIMEOUT_MS),
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    const tookMs = performance.now() - startedAt;
    return { status: response.status, headers: response.headers, text, json: parsedJson(text), tookMs };
  }

  /** Makes a request that may be repeated safely, until it succeeds; rejects with any other answer. */
  async call<T>(...request: Parameters<DeploymentUnderTest["repeated"]>): Promise<T> {
    return (await this.repeated(...request)).json as T;
  }

  /** Does the same, and returns the whole answer. */
  async repeated(
    method: string,
    path: string,
    content?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ApiAnswer> {
    const body = content === undefined ? undefined : JSON.stringify(content);
    const until = Date.now() + REPEATED_MS;
    for (;;) {
      const answer = await this.request(method, path, body, headers).catch(errorMessage);
      const isMissing = typeof answer === "string";
      if (!isMissing && answer.status < 300) return answer;
      const isTemporary = isMissing || answer.status === 429 || answer.status === 503;
      if (!isTemporary || Date.now() > until) throw new Error(`${method} ${path} was ${faultOf(answer)}`);
      const pauseS = isMissing ? 1 : Number(answer.headers.get("retry-after") ?? 1) || 1;
      await sleep(Math.min(LONGEST_PAUSE_S, pauseS) * 1_000);
    }
  }

  /** Creates a destination of this run, for the event type `verify.<name>`. */
  async createDestination(
    name: string,
    url: string,
    settings: Readonly<Record<string, unknown>> = {},
  ): Promise<VerifiedDestination> {
    const type = `verify.${name}`;
    const body = { url, tenant: this.tenant, event_types: [type], ...settings };
    const { id, secret } = await this.call<{ id: string; secret: string }>("POST", "/v1/destinations", body);
    return { id, secret, type };
  }

  /** Posts an event for each `data` in one batch. */
  async post(type: string, data: readonly unknown[], key: string): Promise<readonly AcceptedEvent[]> {
    const events = data.map((one) => ({ type, tenant: this.tenant, data: one }));
    const headers = { "idempotency-key": key };
    return (await this.call<AcceptedEvents>("POST", "/v1/events/batch", { events }, headers)).events;
  }

  /** Posts one event, and returns how long the accepting answer took. */
  async postOne(
    type: string,
    data: unknown,
    key: string,
  ): Promise<Readonly<{ event: AcceptedEvent; tookMs: number }>> {
    const body = { type, tenant: this.tenant, data };
    const { json, tookMs } = await this.repeated("POST", "/v1/events", body, { "idempotency-key": key });
    return { event: json as AcceptedEvent, tookMs };
  }

  /** Deletes a destination; one that is gone already is no fault. */
  async deleteDestination(id: string): Promise<void> {
    const { status } = await this.request("DELETE", `/v1/destinations/${id}`);
    if (status !== 204 && status !== 404) throw new Error(`DELETE of ${id} was answered ${status}`);
  }

  health(): Promise<ApiAnswer> {
    return this.request("GET", "/v1/health");
  }

  destinationHealth(id: string): Promise<DestinationHealth> {
    return this.call("GET", `/v1/destinations/${id}/health`);
  }

  /** Deletes every destination of the run's tenant, and returns their number. */
  async deleteDestinations(): Promise<number> {
    type Page = Readonly<{ data: readonly Readonly<{ id: string }>[]; next_cursor: string | null }>;
    let deleted = 0;
    for (;;) {
      const { data } = await this.call<Page>("GET", `/v1/destinations?tenant=${this.tenant}&limit=100`);
      if (data.length === 0) return deleted;
      for (const { id } of data) await this.deleteDestination(id);
      deleted += data.length;
    }
  }
}

function faultOf(answer: ApiAnswer | string): string {
  if (typeof answer === "string") return `not answered: ${answer}`;
  return `answered ${answer.status}: ${answer.text.slice(0, 300)}`;
}

/**
 * Why the deployment cannot be verified with this key; undefined when it can. Creates nothing: the permission to post
 * is checked with a request that is refused for its content.
 */
export async function deploymentFault(deployment: DeploymentUnderTest): Promise<string | undefined> {
  const { url, tenant } = deployment;
  const health = await deployment.health().catch(errorMessage);
  if (typeof health === "string") return `${url.origin} cannot be reached: ${health}`;
  const { status } = (health.json ?? {}) as Partial<Health>;
  if (!["ok", "stalled", "unreachable", "not_migrated"].includes(status ?? "")) {
    const { detail } = (health.json ?? {}) as { detail?: string };
    if (health.status === 503 && detail !== undefined) return `${url.origin} is not configured: ${detail}`;
    return `${url.origin} is not Breakwater: /v1/health answered ${health.status} without a status of its own`;
  }
  const answers = [
    await deployment.request("GET", "/v1/keys?limit=1"),
    await deployment.request("GET", `/v1/destinations?tenant=${tenant}&limit=1`),
    await deployment.request("POST", "/v1/events", "{}"),
  ];
  const refused = answers.find(({ status }) => status === 401 || status === 403);
  if (refused === undefined) return undefined;
  const { detail = refused.text.slice(0, 200) } = (refused.json ?? {}) as { detail?: string };
  return `The key cannot be used: ${detail}. It needs the scopes admin, read and events:write, and no tenant`;
}
