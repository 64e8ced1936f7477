/**
 * Whatever is stored or typed is shown as text on the portal's pages: each page is rendered with harmless strings and with
 * hostile ones, and one element or attribute more would mean that a string escaped.
 */
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { deliveryId } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { addsOnlyText, hostileStrings } from "../../support/hostile-strings.ts";
import { visitor } from "../../support/portal.ts";

const EVENT = eventAt(1, 0);
const ID = "dst_00000000000000000000";

beforeEach(emptyDatabase);

/** One endpoint, one event and one event type with the string in every column that takes one. */
async function store(text: string): Promise<void> {
  // What a prefix may not have would make the whole form none.
  const prefix = text.replaceAll(/[{}]|[^ -~]/g, "");
  await insertRow("destinations", {
    id: ID,
    tenant: "acme",
    url: `https://example.com/${text}`,
    description: text,
    event_types: [text],
    filter: { total: text.replaceAll(/\p{Cc}/gu, "") },
    headers: { [text]: text },
    signature_forms: [{ form: "template", content: "{body}", signature_header: "x-sig", prefix }],
    transform: {
      ...{ version: 1, after: -1, at: NOW, by: { kind: "api_key", key: text, session: text, person: text } },
      template: { body: text, headers: { "x-a": text }, path: `/${text}`, query: { [text]: text } },
    },
    status: "paused",
    status_reason: text,
    secret: text,
    created_at: NOW,
    updated_at: NOW,
  });
  await insertRow("event_types", {
    name: text,
    description: text,
    schema: JSON.stringify({ description: text, [text]: text }),
    example: JSON.stringify({ [text]: [text] }),
    validates: 1,
    created_at: NOW,
    updated_at: NOW,
  });
  await insertRow("tenant_settings", {
    tenant: "acme",
    branding: { name: text.replaceAll(/\p{Cc}/gu, "") },
    created_at: NOW,
    updated_at: NOW,
  });
  const event = {
    tenant: "acme",
    type: text,
    data: text,
    destinations: [ID],
    tags: [text],
    channels: [text],
  };
  await insertBundles(env.DB, [{ acceptedAt: NOW, events: [event] }]);
  await insertRow("deliveries", {
    destination_id: ID,
    event_id: EVENT,
    state: "dead",
    reason: text,
    attempts: 1,
    give_up_at: NOW,
    last_error: text,
    log: [{ at: NOW, latencyMs: 5, status: 500, error: text, note: text, excerpt: text }],
  });
}

async function pagesWith(text: string): Promise<ReadonlyMap<string, string>> {
  await emptyDatabase();
  await store(text);
  const browser = await visitor("acme");
  const paths = [
    "/portal",
    "/portal/event-types",
    "/portal/endpoints/new",
    `/portal/endpoints/${ID}`,
    `/portal/endpoints/${ID}?state=dead`,
    `/portal/endpoints/${ID}/transform`,
    `/portal/endpoints/${ID}/change`,
    `/portal/endpoints/${ID}/verify`,
    `/portal/deliveries/${deliveryId(EVENT, ID)}`,
  ];
  const pages = new Map<string, string>();
  for (const path of paths) {
    const { status, html } = await browser.get(path);
    expect([path, status]).toEqual([path, 200]);
    pages.set(path, html);
  }
  const typed = {
    url: text,
    description: text,
    which: "some",
    other_types: text,
    filter: text,
    headers: text,
    template_0_content: text,
    template_0_signature_header: text,
    template_0_key: text,
  };
  const refused = await browser.post("/portal/endpoints/new", {
    ...typed,
    headers: `(${text.replaceAll(":", "")}`,
    max_concurrency: text,
  });
  expect(refused.status).toBe(422);
  pages.set("a refused form", refused.html);
  const tried = await browser.post(`/portal/endpoints/${ID}/preview`, { url: text, which: "all" });
  expect([tried.status, tried.html.includes('id="preview"')]).toEqual([200, true]);
  pages.set("a preview", tried.html);
  return pages;
}

it.each(hostileStrings)("%j is text on every page", addsOnlyText(pagesWith));
