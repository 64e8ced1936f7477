/**
 * The dashboard over the real D1 of the test, as a browser uses it: with a cookie, an origin, and forms. Gates show
 * what the test says.
 */
import { env } from "cloudflare:workers";
import type { FiguresQuery, GateFigures, GateView } from "../../src/core/gate-view.ts";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import { newRollups, recentTraffic, rollupsAfter, trafficSum } from "../../src/core/rollups.ts";
import type { LogLine } from "../../src/log.ts";
import { createDashboard } from "../../src/pages/dashboard/app.tsx";
import { type Services, servicesOf } from "../../src/services.ts";
import { KEY, NOW, testApi } from "./api.ts";
import { testConfig } from "./config.ts";
import { figuresOf } from "./figures.ts";
import { idleGateView } from "./idle-gate-view.ts";
import { captureText, withLeakCheck } from "./secret-leaks.ts";
import { bodyText } from "./utf8.ts";
import { vault } from "./vault.ts";

export const ORIGIN = "https://breakwater.example";

export type BrowserOptions = Readonly<{
  services?: Partial<Services>;
  adminKey?: string;
  /** Whether the deployment calls private addresses. */
  allowPrivate?: boolean;
  view?: Partial<GateView>;
  /** The gates' counts of this minute. */
  metrics?: readonly AttemptMetric[];
  /** Methods of the gate that the test replaces. */
  gate?: object;
}>;

function figuresWith(
  view: Partial<GateView>,
  metrics: readonly AttemptMetric[],
  look: FiguresQuery,
): GateFigures {
  const rollups = rollupsAfter(newRollups(NOW), metrics, NOW);
  const minutes = recentTraffic(rollups, NOW);
  const shown = { ...idleGateView, minutes, traffic: trafficSum(minutes), ...view };
  return figuresOf(shown, rollups, look, NOW);
}

type ServicesOf = (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;
type Pages = Readonly<{
  fetch: (request: Request, env: Env, ctx: ExecutionContext) => Response | Promise<Response>;
}>;

/** A browser without a cookie yet, before a dashboard. */
export function testDashboard(options: BrowserOptions = {}) {
  const browser = testBrowser((services) => createDashboard({ services }), options);
  return { ...browser, signIn: (key = KEY) => browser.post("/dashboard/sign-in", { key }) };
}

/** A browser without a cookie yet, before pages that are made over the services of the test. */
export function testBrowser(
  create: (services: ServicesOf) => Pages,
  {
    services = {},
    adminKey = KEY,
    allowPrivate = false,
    view = {},
    metrics = [],
    gate = {},
  }: BrowserOptions = {},
) {
  const pending: Promise<unknown>[] = [];
  const gateCalls: string[] = [];
  const world = {
    vault,
    deliveries: { sendBatch: async () => {} },
    drains: { send: async () => {}, sendBatch: async () => {} },
    upkeep: { send: async () => {}, sendBatch: async () => {} },
    config: testConfig({ adminKey, allowPrivateDestinations: allowPrivate }),
    gates: {
      idFromName: (name: string) => name,
      get: (name: string) => ({
        view: async () => ({ ...idleGateView, ...view }),
        figures: async (look: FiguresQuery) => figuresWith(view, metrics, look),
        refusal: async () => null,
        scheduleDrain: async () => void gateCalls.push(`scheduleDrain ${name}`),
        resume: async () => void gateCalls.push(`resume ${name}`),
        recheck: async () => [],
        ...gate,
      }),
    },
    now: () => NOW,
    log: (line: LogLine) => captureText("A log line", JSON.stringify(line)),
    background: (work: Promise<unknown>) => void pending.push(work),
    ...services,
  } as unknown as Partial<Services>;
  const app = withLeakCheck(create((bindings, ctx) => ({ ...servicesOf(bindings, ctx), ...world })));
  const jar = new Map<string, string>();
  const cookie = () => [...jar].map(([name, value]) => `${name}=${value}`).join("; ");

  async function call(method: string, path: string, init: RequestInit = {}) {
    const sent = cookie();
    const headers = { ...(sent && { cookie: sent }), ...(init.headers as Record<string, string>) };
    const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
    const request = new Request(`${ORIGIN}${path}`, { redirect: "manual", ...init, method, headers });
    const response = await app.fetch(request, env, context as unknown as ExecutionContext);
    const html = await bodyText(response);
    await Promise.all(pending.splice(0));
    for (const set of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      if (/max-age=0/i.test(set)) jar.delete(name);
      else jar.set(name, value);
    }
    return { status: response.status, headers: response.headers, html };
  }

  const ownPage = { origin: ORIGIN, "sec-fetch-site": "same-origin" };

  /** Sends a form of one of the dashboard's pages. */
  function post(
    path: string,
    fields: Record<string, string> | URLSearchParams = {},
    headers: Record<string, string> = {},
  ) {
    return call("POST", path, { body: new URLSearchParams(fields), headers: { ...ownPage, ...headers } });
  }

  /** Opens a page, and sends the form on it that says when what it changes was read. */
  async function save(path: string, fields: Record<string, string>, page = path) {
    const [, readAt = ""] = /name="read_at" value="([^"]+)"/.exec((await call("GET", page)).html) ?? [];
    return post(path, { read_at: readAt, ...fields });
  }

  return {
    gateCalls,
    get: (path: string, headers: Record<string, string> = {}) => call("GET", path, { headers }),
    post,
    save,
    /** Sends a form of such a page, which may contain a file. */
    send: (path: string, body: FormData) => call("POST", path, { body, headers: ownPage }),
    /** The cookie that the browser would send. */
    cookie,
    setCookie: (value: string) => {
      jar.clear();
      for (const one of value.split("; "))
        jar.set(one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1));
    },
  };
}

type Browser = ReturnType<typeof testDashboard>;

/** A browser in which the operator has signed in. */
export async function signedIn(): Promise<Browser> {
  const browser = testDashboard();
  await browser.signIn();
  return browser;
}

/** A browser in which a person has signed in with a new key: of a tenant, or with fewer scopes. */
export async function signedInWith(
  key: Readonly<{ tenant?: string; scopes: readonly string[]; expires_at?: string }>,
): Promise<Browser> {
  const { json } = await testApi().call("POST", "/v1/keys", key);
  const browser = testDashboard();
  await browser.signIn(json.key);
  return browser;
}

/** A browser in which a person has signed in with a key of the tenant. */
export function customer(tenant: string, readOnly = false): Promise<Browser> {
  return signedInWith({ tenant, scopes: readOnly ? ["read"] : ["read", "admin"] });
}
