/**
 * Every stored or typed string is shown as text on every page of the dashboard. New pages are covered as they are
 * registered.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { deliveryId, eventId } from "../../../src/ids.ts";
import { createDashboard } from "../../../src/pages/dashboard/app.tsx";
import { isoTime } from "../../../src/time.ts";
import { emptyDatabase, insertRow, NOW } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { testDashboard } from "../../support/dashboard.ts";
import { hostileTexts, namesIn, pagesAmong, pathNaming, strayMarkup } from "../../support/hostile-strings.ts";

const EVENT = eventAt(1, 0);
const ID = "dst_00000000000000000000";
const EDITED = "dst_00000000000000000001";
const ERASURE = "era_00000000000000000000";
const KEY_ID = "key_00000000000000000000";
const ACTION = "act_00000000000000000000";
const TENANT = "default";

beforeEach(emptyDatabase);

/** One destination, one event and one event type with the string in every column that takes one. */
async function store(text: string): Promise<void> {
  const destination = {
    id: ID,
    tenant: text,
    url: `https://example.com/${text}`,
    description: text,
    event_types: [text],
    headers: { [text]: text },
    metadata: { [text]: text },
    auth: {
      kind: "oauth2",
      token_url: text,
      client_id: text,
      scope: text,
      audience: text,
      params: { [text]: text },
      client_auth: text.length % 2 ? "body" : "basic",
      sealed: text,
    },
    signature_forms: [{ form: "template", content: "{body}", signature_header: "x-sig", prefix: text }],
    transform: {
      ...{ version: 1, after: -1, at: NOW, by: { kind: "api_key", key: text, session: text, person: text } },
      template: { body: text, headers: { "x-a": text }, path: `/${text}`, query: { [text]: text } },
    },
    notice_channel: { kind: "slack", target: text, on: ["dead"], open_after_minutes: 5, language: "en" },
    notice_target: text,
    certification: JSON.stringify({ at: NOW, checks: [{ name: text, passed: false, detail: text }] }),
    uid: text,
    group_name: text,
    channels: [text],
    status: "paused",
    status_reason: text,
    secret: text,
    created_at: NOW,
    updated_at: NOW,
  };
  await insertRow("destinations", destination);
  // The choices of a form must not depend on the string, because they are marked in the page.
  const auth = { ...destination.auth, client_auth: "basic" };
  await insertRow("destinations", { ...destination, id: EDITED, auth, signature_forms: null, uid: null });
  await insertRow("event_types", {
    name: text,
    description: text,
    schema: JSON.stringify({ description: text, [text]: text }),
    example: JSON.stringify({ [text]: [text] }),
    validates: 1,
    created_at: NOW,
    updated_at: NOW,
  });
  await insertRow("api_keys", {
    id: KEY_ID,
    name: text,
    tenant: text,
    scopes: ["read"],
    hash: text,
    created_at: NOW,
  });
  await insertRow("audit_entries", {
    id: 1,
    at: NOW,
    tenant: text,
    actor: { kind: "api_key", key: text, session: text },
    action: text,
    subject: text,
    changes: { [text]: { from: text, to: { [text]: [text] } } },
  });
  await insertRow("erasures", {
    id: ERASURE,
    tenant: text,
    kind: "tenant",
    state: "running",
    until: NOW,
    next_step_at: NOW,
    created_at: NOW,
    updated_at: NOW,
  });
  await insertRow("event_type_versions", {
    ...{
      type: text,
      version: 1,
      schema: JSON.stringify({ description: text }),
      example: JSON.stringify(text),
    },
    ...{ conversions: [], published_at: 0, deprecated_at: NOW, sunset_at: NOW },
  });
  const conversions = [{ at: NOW, template: text }];
  await insertRow("event_type_versions", { type: text, version: 2, conversions, published_at: NOW });
  await insertRow("groups", { name: text, max_concurrency: 3, created_at: NOW, updated_at: NOW });
  await insertRow("agent_actions", {
    ...{ id: ACTION, tenant: text, key_id: text, session_id: text, tool: text, input: { [text]: text } },
    ...{ state: "done", created_at: NOW, expires_at: NOW + 1, decided_at: NOW, outcome: text },
  });
  await insertRow("replays", {
    ...{
      id: "rpl_00000000000000000000",
      tenant: text,
      destination_id: ID,
      include: "dead",
      event_types: [text],
      tag: text,
    },
    ...{
      since: 0,
      until: NOW,
      rate_per_minute: 9,
      state: "paused",
      reason: text,
      pace: 9,
      next_step_at: NOW,
    },
    ...{ created_at: NOW, updated_at: NOW },
  });
  await insertRow("tenant_settings", {
    ...{ tenant: TENANT, contact_email: text, portal: { [text]: text }, created_at: NOW, updated_at: NOW },
    branding: { name: text.replaceAll(/\p{Cc}/gu, "").slice(0, 80) },
  });
  const event = { tenant: text, type: text, data: text, destinations: [ID], tags: [text], channels: [text] };
  await insertBundles(env.DB, [{ acceptedAt: NOW, events: [event] }]);
  await insertRow("deliveries", {
    destination_id: ID,
    event_id: EVENT,
    state: "dead",
    reason: text,
    attempts: 1,
    give_up_at: NOW,
    last_error: text,
    log: [{ at: NOW, latencyMs: 5, error: text, note: text, excerpt: text }],
  });
}

const pages = pagesAmong(createDashboard().routes);

/** The paths of a page, with its other parameters. */
function pathsOf(page: string, text: string): string[] {
  const path = pathNaming(page, {
    destinations: /(edit|delete)$/.test(page) ? EDITED : ID,
    ...{ events: eventId(EVENT), deliveries: deliveryId(EVENT, ID), attempts: isoTime(NOW), keys: KEY_ID },
    ...{ replays: "rpl_00000000000000000000", groups: "acme" },
    ...{ actions: ACTION, erasures: ERASURE, "event-types": encodeURIComponent(text) },
  });
  const asked: Readonly<Record<string, readonly string[]>> = {
    "/dashboard/destinations/:id": ["", "?window=7d", "?state=dead"],
    "/dashboard/simulator": ["", `?destination=${ID}`],
    "/dashboard/deliveries": ["", "?state=dead"],
    "/dashboard/deliveries/repair": ["?action=retry&state=dead"],
    "/dashboard/search": ["?q=type:*"],
    "/dashboard/groups/limits": ["", "?name=acme"],
  };
  return (asked[page] ?? [""]).map((query) => `${path}${query}`);
}

/** Pages that show one tenant alone. */
const isTenants = (path: string) => path.startsWith("/dashboard/settings");

async function pagesWith(text: string): Promise<ReadonlyMap<string, string>> {
  await emptyDatabase();
  await store(text);
  const [browser, inTenant] = [testDashboard(), testDashboard()];
  await browser.signIn();
  await inTenant.signIn();
  await inTenant.get(`/dashboard?tenant=${TENANT}`);
  const shown = new Map<string, string>();
  const failed: string[] = [];
  for (const path of pages.flatMap((page) => pathsOf(page, text))) {
    const { status, html } = await (isTenants(path) ? inTenant : browser).get(path);
    if (status !== 200) failed.push(`${path}: ${status} ${html}`);
    shown.set(path.replace(encodeURIComponent(text), ":name"), html);
  }
  expect(failed).toEqual([]);
  return shown;
}

/** Pages that show nothing of what is stored here. */
const showNothing = [
  "/dashboard/portal-links",
  "/dashboard/event-types/new",
  "/dashboard/event-types/import",
  "/dashboard/settings/import",
  "/dashboard/settings/delete",
  "/dashboard/deliveries/repair?action=retry&state=dead",
  "/dashboard/groups/limits",
  "/dashboard/groups/limits?name=acme",
];

describe("a stored text", () => {
  it.each(hostileTexts)("is text on every page: %j", async (text) => {
    const stray: string[] = [];
    for (const [path, html] of await pagesWith(text))
      for (const found of await strayMarkup(html)) stray.push(`${path}: ${found}`);
    expect(stray).toEqual([]);
  });

  it("is shown, escaped", async () => {
    const shown = await pagesWith("<b>bold</b>");
    const without = [...shown].filter(([, html]) => !html.includes("&lt;b&gt;bold&lt;/b&gt;"));
    expect(without.map(([path]) => path)).toEqual(showNothing);
  });
});

it("any input or query is text on the page that answers", async () => {
  const text = hostileTexts.join(" ");
  const shown = await pagesWith("harmless");
  const browser = testDashboard();
  await browser.signIn();
  const names = new Set([
    "done",
    "after",
    "before",
    "cursor",
    "window",
    ...[...shown.values()].flatMap(namesIn),
  ]);
  const typed = new URLSearchParams([...names].map((name) => [name, text]));
  const form = new URLSearchParams(typed);
  // Only a form that is up to date is read.
  form.set("read_at", isoTime(NOW));
  const stray: string[] = [];
  for (const { method, path } of createDashboard().routes) {
    if (!/^(GET|POST)$/.test(method) || /[*{]|(sign-out|tail)$/.test(path)) continue;
    const at = pathsOf(path, "harmless")[0]?.split("?")[0] ?? "";
    const asked = method === "GET" ? browser.get(`${at}?${typed}`) : browser.post(at, form);
    const { status, html } = await asked;
    const found = await strayMarkup(html);
    if (found.length > 0 || status === 500) stray.push(`${method} ${path}: ${status} ${found}`);
  }
  expect(stray).toEqual([]);
});
