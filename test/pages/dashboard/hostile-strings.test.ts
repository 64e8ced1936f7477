/**
 * Whatever is stored is shown as text. Each page is rendered with harmless strings and with hostile ones: one element
 * or attribute more would mean that a string escaped.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { eventId } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { testDashboard } from "../../support/dashboard.ts";
import { addsOnlyText, hostileStrings } from "../../support/hostile-strings.ts";

const EVENT = eventAt(1, 0);
const ID = "dst_00000000000000000000";
const EDITED = "dst_00000000000000000001";
const ERASURE = "era_00000000000000000000";
const KEY_ID = "key_00000000000000000000";

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
    status: "paused",
    status_reason: text,
    secret: text,
    created_at: NOW,
    updated_at: NOW,
  };
  await insertRow("destinations", destination);
  // What a form has chosen must not depend on the string, since its choices are marked in the page.
  const auth = { ...destination.auth, client_auth: "basic" };
  await insertRow("destinations", { ...destination, id: EDITED, auth, signature_forms: null });
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

async function pagesWith(text: string): Promise<ReadonlyMap<string, string>> {
  await emptyDatabase();
  await store(text);
  const browser = testDashboard();
  await browser.signIn();
  const paths = [
    "/dashboard",
    "/dashboard/destinations",
    "/dashboard/destinations/new",
    "/dashboard/event-types",
    `/dashboard/event-types/${encodeURIComponent(text)}/edit`,
    `/dashboard/event-types/${encodeURIComponent(text)}/delete`,
    "/dashboard/keys",
    `/dashboard/keys/${KEY_ID}/revoke`,
    "/dashboard/audit",
    "/dashboard/tenants",
    "/dashboard/erasures",
    `/dashboard/erasures/${ERASURE}`,
    `/dashboard/destinations/${EDITED}/edit`,
    `/dashboard/destinations/${EDITED}/delete`,
    `/dashboard/destinations/${ID}`,
    `/dashboard/destinations/${ID}?window=7d`,
    `/dashboard/destinations/${ID}?state=dead`,
    `/dashboard/destinations/${ID}/transform`,
    `/dashboard/events/${eventId(EVENT)}`,
    `/dashboard/simulator?destination=${ID}`,
    "/dashboard/deliveries?state=dead",
    "/dashboard/search?q=type:*",
  ];
  const pages = new Map<string, string>();
  for (const path of paths) {
    const { status, html } = await browser.get(path);
    expect([path, status]).toEqual([path, 200]);
    pages.set(path.replace(encodeURIComponent(text), ":name"), html);
  }
  return pages;
}

describe("a stored string", () => {
  it.each(hostileStrings)("is text on every page: %j", addsOnlyText(pagesWith));

  it("is shown, escaped", async () => {
    for (const [path, html] of await pagesWith("<b>bold</b>")) {
      expect([path, html.includes("&lt;b&gt;bold&lt;/b&gt;")]).toEqual([path, true]);
    }
  });
});
