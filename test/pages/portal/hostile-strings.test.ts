/**
 * Every stored or typed string is shown as text on every page of the portal. New pages are covered as they are
 * registered.
 */
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { POLLED_TARGET } from "../../../src/core/inbox.ts";
import { deliveryId } from "../../../src/ids.ts";
import { createPortal } from "../../../src/pages/portal/app.tsx";
import { isoTime } from "../../../src/time.ts";
import { emptyDatabase, insertRow, NOW } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { hostileTexts, namesIn, pagesAmong, pathNaming, strayMarkup } from "../../support/hostile-strings.ts";
import { linkToken, visitor } from "../../support/portal.ts";

const EVENT = eventAt(1, 0);
const ID = "dst_00000000000000000000";
const POLLED = "dst_00000000000000000001";
const ACTION = "act_00000000000000000000";
const TYPE = "order.paid";

beforeEach(emptyDatabase);

/** One endpoint, one event and one event type with the string in every column that takes one. */
async function store(text: string): Promise<void> {
  // A character that a prefix may not have would make the whole form invalid.
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
    notice_channel: { kind: "slack", target: text, on: ["dead"], open_after_minutes: 5, language: "en" },
    notice_target: text,
    certification: JSON.stringify({ at: NOW, checks: [{ name: text, passed: false, detail: text }] }),
    channels: [text],
    status: "paused",
    status_reason: text,
    secret: text,
    created_at: NOW,
    updated_at: NOW,
  });
  const polled = { id: POLLED, tenant: "acme", url: POLLED_TARGET, description: text, secret: text };
  await insertRow("destinations", { ...polled, created_at: NOW, updated_at: NOW });
  const key = {
    name: text,
    tenant: "acme",
    scopes: ["poll"],
    destination: POLLED,
    made_in: "portal",
    hash: text,
  };
  await insertRow("api_keys", { id: "key_00000000000000000000", ...key, created_at: NOW });
  for (const name of [text, TYPE])
    await insertRow("event_types", {
      name,
      description: text,
      schema: JSON.stringify({ description: text, [text]: text }),
      example: JSON.stringify({ [text]: [text] }),
      validates: 1,
      created_at: NOW,
      updated_at: NOW,
    });
  const former = {
    schema: JSON.stringify({ description: text }),
    example: JSON.stringify(text),
    conversions: [],
  };
  await insertRow("event_type_versions", {
    type: TYPE,
    version: 1,
    ...former,
    published_at: 0,
    sunset_at: NOW,
  });
  const conversions = [{ at: NOW, template: text }];
  await insertRow("event_type_versions", { type: TYPE, version: 2, conversions, published_at: NOW });
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

const pages = pagesAmong(createPortal().routes);

/** The page of a link, which is none of a visit. */
const ENTER = "/portal/enter";

function pathOf(page: string): string {
  return pathNaming(page, {
    endpoints: page.endsWith("/poll") ? POLLED : ID,
    ...{ deliveries: deliveryId(EVENT, ID), attempts: isoTime(NOW), actions: ACTION, "event-types": TYPE },
    ...{ keys: "key_00000000000000000000", replays: "rpl_00000000000000000000" },
  });
}

/** A visitor, with a call of an agent in the visit that waits for a decision. */
async function visiting(text: string) {
  const browser = await visitor("acme");
  const session = await env.DB.prepare("SELECT id FROM sessions").first<string>("id");
  await insertRow("agent_actions", {
    ...{ id: ACTION, tenant: "acme", session_id: session, tool: text, input: { [text]: text } },
    ...{ state: "done", created_at: NOW, expires_at: NOW + 1, decided_at: NOW, outcome: text },
  });
  return browser;
}

async function pagesWith(text: string) {
  await emptyDatabase();
  await store(text);
  const browser = await visiting(text);
  const shown = new Map<string, string>();
  const failed: string[] = [];
  for (const path of [...pages.map(pathOf), `/portal/endpoints/${ID}?state=dead`]) {
    const query = path === ENTER ? `?token=${await linkToken({ tenant: "acme" })}` : "";
    const { status, html } = await browser.get(`${path}${query}`);
    if (status !== 200) failed.push(`${path}: ${status} ${html}`);
    shown.set(path, html);
  }
  expect(failed).toEqual([]);
  return { browser, shown };
}

it.each(hostileTexts)("%j is text on every page", async (text) => {
  const stray: string[] = [];
  for (const [path, html] of (await pagesWith(text)).shown)
    for (const found of await strayMarkup(html)) stray.push(`${path}: ${found}`);
  expect(stray).toEqual([]);
});

/** Pages that show nothing of what is stored here. */
const showNothing: readonly string[] = [];

it("a stored text is shown, escaped", async () => {
  const { shown } = await pagesWith("<b>bold</b>");
  const without = [...shown].filter(([, html]) => !html.includes("&lt;b&gt;bold&lt;/b&gt;"));
  expect(without.map(([path]) => path)).toEqual(showNothing);
});

it("any input or query is text on the page that answers", async () => {
  const text = hostileTexts.join(" ");
  const { browser, shown } = await pagesWith("harmless");
  const names = new Set(["done", "after", "before", "in", ...[...shown.values()].flatMap(namesIn)]);
  const typed = new URLSearchParams([...names].map((name) => [name, text]));
  const form = new URLSearchParams(typed);
  // A fault that no form has otherwise.
  form.set("which", "some");
  // Only a form that is up to date is read.
  form.set("read_at", isoTime(NOW));
  const stray: string[] = [];
  for (const { method, path } of createPortal().routes) {
    if (!/^(GET|POST)$/.test(method) || /[*{]|leave$/.test(path)) continue;
    const at = pathOf(path);
    const { status, html } = await (method === "GET"
      ? browser.get(`${at}?${typed}`)
      : browser.post(at, form));
    const found = await strayMarkup(html);
    if (found.length > 0 || status === 500) stray.push(`${method} ${path}: ${status} ${found}`);
  }
  expect(stray).toEqual([]);
});
