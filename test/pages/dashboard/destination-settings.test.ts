/** The description of requests on a destination's page, which shows no credentials. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { queueBinding, serviceBinding } from "../../support/bindings.ts";
import { customer, signedIn } from "../../support/dashboard.ts";
import { receivers } from "../../support/receivers.ts";
import { utf8 } from "../../support/utf8.ts";

const receiver = receivers();
const destinationBindings = new Map([
  ["ORDERS", queueBinding(receiver, "ORDERS")],
  ["BILLING", serviceBinding(receiver)],
]);
const { call } = testApi({ services: { destinationBindings } });
const https = { url: "https://example.com/hook" };
const queue = {
  account_id: "023e105f4ecef8ad9ca31a8372d0c353",
  queue_id: "f1e2d3c4b5a697887766554433221100",
};

beforeEach(emptyDatabase);

async function created(settings: object): Promise<string> {
  const { status, json } = await call("POST", "/v1/destinations", { tenant: "acme", ...settings });
  expect([status, json.errors]).toEqual([201, undefined]);
  return json.id;
}

/** The settings on the page of the destination, each with its values, as a customer who may change nothing sees them. */
async function settingsOf(id: string): Promise<Readonly<Record<string, readonly string[]>>> {
  const { status, html } = await (await customer("acme", true)).get(`/dashboard/destinations/${id}`);
  expect(status).toBe(200);
  const [, section = ""] = html.split('id="sending"');
  const rows = [
    ...(section.split("</table>")[0] ?? "").matchAll(/<th scope="row">([^<]*)<\/th>(.*?)<\/tr>/gs),
  ];
  return Object.fromEntries(
    rows.map(([, name = "", cell = ""]) => [
      name,
      [...cell.matchAll(/<div>([^<]*)<\/div>/g)].map(([, value]) => value?.replaceAll("&quot;", '"')),
    ]),
  ) as Readonly<Record<string, readonly string[]>>;
}

describe("the page of a destination", () => {
  it("shows the defaults in words", async () => {
    expect(await settingsOf(await created(https))).toEqual({
      Kind: ["HTTPS endpoint"],
      URL: ["https://example.com/hook"],
      Body: ["Envelope with type, timestamp and data"],
      Signature: ["Standard Webhooks with HMAC-SHA-256, in webhook-signature"],
      Authentication: ["None besides the signature"],
      Headers: ["None of its own"],
    });
  });

  it.each([
    [
      { kind: "queue", binding: "ORDERS" },
      { Kind: ["Cloudflare queue"], Binding: ["ORDERS"] },
    ],
    [
      { kind: "queue", ...queue, token: "canary-token-of-the-queue" },
      { Kind: ["Cloudflare queue"], Account: [queue.account_id], Queue: [queue.queue_id] },
    ],
    [
      { kind: "service", binding: "BILLING", path: "/hook" },
      { Kind: ["Worker behind a service binding"], Binding: ["BILLING"], Path: ["/hook"] },
    ],
    [{ ...https, channels: ["eu", "project-42"] }, { Channels: ["eu, project-42"] }],
    [{ ...https, body: "data" }, { Body: ["The data alone, as it was posted"] }],
    [
      { ...https, signature: "ed25519" },
      { Signature: ["Standard Webhooks with ed25519, in webhook-signature"] },
    ],
    [
      {
        ...https,
        signature_forms: [
          { form: "stripe" },
          {
            form: "template",
            content: "{timestamp}\n{body}",
            signature_header: "X-Sig",
            timestamp_header: "X-Time",
            prefix: "v=",
            algorithm: "sha512",
            encoding: "base64",
          },
        ],
      },
      {
        Signature: [
          "Stripe with HMAC-SHA-256, in stripe-signature",
          "Template with HMAC-SHA-512, in x-sig after v=, as base64, of {timestamp}\\n{body}; x-time: {timestamp}",
        ],
      },
    ],
    [
      { ...https, auth: { kind: "basic", username: "breakwater", password: "canary-password" } },
      { Authentication: ["HTTP Basic as breakwater"] },
    ],
    [{ ...https, auth: { kind: "bearer", token: "canary-bearer" } }, { Authentication: ["Bearer token"] }],
    [
      { ...https, auth: { kind: "header", header: "X-Api-Key", value: "canary-key" } },
      { Authentication: ["Key in the header X-Api-Key"] },
    ],
    [
      {
        ...https,
        auth: {
          kind: "oauth2",
          token_url: "https://login.example.com/token",
          client_id: "client-7",
          client_secret: "canary-client-secret",
          scope: "events.write",
          audience: "hooks",
          params: { resource: "urn:hooks" },
          client_auth: "body",
        },
      },
      {
        Authentication: [
          "OAuth 2 client credentials as client-7, in the form",
          "Token endpoint: https://login.example.com/token",
          "Scope: events.write",
          "Audience: hooks",
          "resource: urn:hooks",
        ],
      },
    ],
    [
      { ...https, headers: { "X-Tenant": "canary-header", "x-two": "canary-two" } },
      { Headers: ["X-Tenant: ***", "x-two: ***"] },
    ],
  ])("shows %j readably, without its secrets", async (settings, shown) => {
    const id = await created(settings);
    expect(await settingsOf(id)).toMatchObject(shown);
    for (const browser of [await signedIn(), await customer("acme")])
      expect((await browser.get(`/dashboard/destinations/${id}`)).html).not.toContain("canary");
  });

  it("says which settings were made unreadable in the database", async () => {
    const id = await created(https);
    await env.DB.prepare(
      "UPDATE destinations SET url = 'queue:', auth = '{', sealed_headers = '{', body = 'x', signature_forms = '[7]'",
    ).run();
    expect(await settingsOf(id)).toEqual({
      Kind: ["Cloudflare queue"],
      Target: ["Unreadable: set it again"],
      Body: ["Envelope with type, timestamp and data"],
      Signature: ["Standard Webhooks with HMAC-SHA-256, in webhook-signature"],
      Authentication: ["Unreadable: set it again"],
      Headers: ["Unreadable: set it again"],
    });
  });
});

describe("the page of an event", () => {
  it("shows its tags, its time to live and the names of its headers, but not their values", async () => {
    const options = {
      tags: ["import", "night"],
      channels: ["eu", "us"],
      ttl: 3600,
      headers: { "X-Trace": "canary-1", "x-run": "canary-2" },
    };
    const { json } = await call("POST", "/v1/events", {
      type: "order.paid",
      data: 1,
      tenant: "acme",
      ...options,
    });
    for (const browser of [await signedIn(), await customer("acme", true)]) {
      const { html } = await browser.get(`/dashboard/events/${json.id}`);
      expect(html).toMatch(
        /Tags: <a href="[^"]+tag=import">import<\/a>, <a href="[^"]+tag=night">night<\/a></,
      );
      expect(html).toContain("Channels: eu, us");
      expect(html).toContain("given up 3,600 seconds after");
      expect(html).toContain("Additional headers: X-Trace, x-run");
      expect(html).not.toContain("canary");
    }
  });

  it("shows the content type of content that is not JSON", async () => {
    await created({ ...https, body: "data" });
    const posted = await call("POST", "/v1/events?type=invoice.paid&tenant=acme", utf8("<invoice/>"), {
      "content-type": "application/xml",
    });
    expect(posted.status).toBe(202);
    const { html } = await (await customer("acme", true)).get(`/dashboard/events/${posted.json.id}`);
    expect(html).toContain("application/xml, 10 bytes");
    expect(html).toContain("&lt;invoice/&gt;");
  });

  it("names no headers, tags or time to live when it has none", async () => {
    const { json } = await call("POST", "/v1/events", { type: "order.paid", data: 1 });
    const { html } = await (await signedIn()).get(`/dashboard/events/${json.id}`);
    expect(html).not.toMatch(/Tags:|Channels:|given up|Additional headers/);
  });
});
