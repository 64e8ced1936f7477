/**
 * The pages that change a destination and delete it: what they store, what they leave unchanged, and what they never show.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { ownHeaders } from "../../../src/delivery/authorization.ts";
import { findDestination } from "../../../src/store/destinations.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { signedIn, signedInWith, testDashboard } from "../../support/dashboard.ts";
import { vault } from "../../support/vault.ts";

const { call } = testApi();

beforeEach(emptyDatabase);

async function created(settings: object = {}, tenant = "acme"): Promise<string> {
  const body = { url: "https://example.com/hook", tenant, ...settings };
  const { status, json } = await call("POST", "/v1/destinations", body);
  expect([status, json.errors]).toEqual([201, undefined]);
  return json.id;
}

const shown = async (id: string) => (await call("GET", `/v1/destinations/${id}`)).json;
const at = (id: string, page = "edit") => `/dashboard/destinations/${id}/${page}`;

const decoded = (text: string) =>
  text
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");

/** The fields of the page's form as a browser would send them. */
async function formOf(html: string): Promise<Record<string, string>> {
  const fields: Record<string, string> = {};
  let select = "";
  let area: string | undefined;
  await new HTMLRewriter()
    .on("main input", {
      element: (e) => {
        const [name, type] = [e.getAttribute("name"), e.getAttribute("type")];
        if (name === null || (type === "checkbox" && e.getAttribute("checked") === null)) return;
        fields[name] = decoded(e.getAttribute("value") ?? "");
      },
    })
    .on("main select", {
      element: (e) => {
        select = e.getAttribute("name") ?? "";
      },
    })
    .on("main option", {
      element: (e) => {
        const isFirst = fields[select] === undefined && select !== "";
        if (isFirst || e.getAttribute("selected") !== null) fields[select] = e.getAttribute("value") ?? "";
      },
    })
    .on("main textarea", {
      element: (e) => {
        area = e.getAttribute("name") ?? "";
        fields[area] = "";
      },
      text: ({ text }) => {
        if (area !== undefined) fields[area] += text;
      },
    })
    .transform(new Response(html))
    .text();
  return Object.fromEntries(
    Object.entries(fields).map(([name, text]) => [name, decoded(text).replace(/^\n/, "")]),
  );
}

const everything = {
  description: 'A "quoted" <name>',
  uid: "b-1",
  metadata: { team: "a:b", "x y": "" },
  event_types: ["order.*", "invoice.paid"],
  channels: ["eu", "us"],
  filter: { "order.total": { gte: 100 }, test: { not: true } },
  headers: { "X-Key": "canary-header", "x-two": "canary-two" },
  auth: {
    kind: "oauth2",
    token_url: "https://login.example.com/token",
    client_id: "c",
    client_secret: "canary-client-secret",
    params: { resource: "urn:hooks" },
  },
  body: "data",
  signature_forms: [
    { form: "standard" },
    {
      form: "template",
      content: "{timestamp}\n{body} ",
      signature_header: "X-Sig",
      prefix: "v=",
      key: "bytes",
    },
    { form: "template", content: "{body}", signature_header: "X-Sig-2", algorithm: "sha512" },
  ],
  max_concurrency: 3,
  rate_per_second: 0.5,
  rate_burst: 7,
  timeout_ms: 2000,
  group: "shared-receiver",
  ordering: "key",
  ordering_path: "data.order.id",
  on_dead: "hold",
  breaker: { failure_ratio: 0.25, cooldown_s: 10 },
  retry: { preset: "capped", schedule: [5, 120], jitter: { proportional: 0.2 }, on: { retry: [404] } },
};

describe("the form of a destination", () => {
  it("shows everything that is set, and saving it unchanged changes nothing", async () => {
    const id = await created(everything);
    const before = await shown(id);
    const browser = await signedIn();
    const { status, html } = await browser.get(at(id));
    expect([status, html.includes("canary")]).toEqual([200, false]);
    const saved = await browser.post(at(id), await formOf(html));
    expect([saved.status, saved.headers.get("location")]).toEqual([
      303,
      `/dashboard/destinations/${id}?done=unchanged`,
    ]);
    expect(await shown(id)).toEqual(before);
  });

  it("changes the edited fields, and keeps the values of other headers without sending them to the page", async () => {
    const id = await created(everything);
    const browser = await signedIn();
    const form = await formOf((await browser.get(at(id))).html);
    const headers = `${form.headers}\nX-New: three`.replace(/x-two.*\n/, "");
    const change = {
      ...form,
      headers,
      description: "Warehouse",
      event_types: "",
      filter: "",
      timeout_ms: "",
    };
    const { status, headers: answer } = await browser.post(at(id), change);
    expect([status, answer.get("location")]).toEqual([303, `/dashboard/destinations/${id}?done=changed`]);
    expect(await shown(id)).toMatchObject({
      description: "Warehouse",
      event_types: null,
      filter: null,
      timeout_ms: 15_000,
      headers: { "X-Key": "***", "X-New": "***" },
      auth: { kind: "oauth2" },
      retry: everything.retry,
    });
    const row = await findDestination(env.DB, id, undefined);
    expect(row && (await ownHeaders(vault, row))).toEqual({ "X-Key": "canary-header", "X-New": "three" });
    expect((await browser.get(`/dashboard/destinations/${id}?done=changed`)).html).toContain("Changes saved");
  });

  it("neither shows nor changes the operator's fields with the key of a tenant", async () => {
    const id = await created(everything);
    const browser = await signedInWith({ tenant: "acme", scopes: ["read", "admin"] });
    const { html } = await browser.get(at(id));
    expect(html).not.toContain(everything.group);
    const changed = await browser.post(at(id), { ...(await formOf(html)), description: "Warehouse" });
    expect([changed.status, changed.headers.get("location")]).toEqual([
      303,
      `/dashboard/destinations/${id}?done=changed`,
    ]);
    expect(await shown(id)).toMatchObject({ description: "Warehouse", group: everything.group });
  });

  it("requires the client secret again when the token endpoint changes", async () => {
    const id = await created(everything);
    const browser = await signedIn();
    const form = await formOf((await browser.get(at(id))).html);
    const moved = { ...form, auth_token_url: "https://evil.example/token" };
    const { status, html } = await browser.post(at(id), moved);
    expect(status).toBe(422);
    expect(html).toMatch(
      /id="f-auth_client_secret-fault"><p>Client secret is [^<]*; expected the value itself/,
    );
    expect(await shown(id)).toMatchObject({ auth: { token_url: everything.auth.token_url } });
    expect((await browser.post(at(id), { ...moved, auth_client_secret: "canary-other" })).status).toBe(303);
    expect(await shown(id)).toMatchObject({ auth: { token_url: "https://evil.example/token" } });
  });

  it("shows each error at its field, and keeps the input", async () => {
    const id = await created();
    const browser = await signedIn();
    const form = await formOf((await browser.get(at(id))).html);
    const typed = {
      ...form,
      url: "ftp://x",
      filter: '{"a": {"gt": "x"}}',
      max_cooldown_s: "1",
      description: "<b>",
    };
    const { status, html } = await browser.post(at(id), typed);
    expect(status).toBe(422);
    for (const name of ["url", "filter"]) expect(html).toContain(`id="f-${name}-fault"`);
    expect(html).toMatch(/<a href="#f-filter">Filter \(JSON\)<\/a>/);
    expect(html).toContain("Filter (JSON) at a.gt is &quot;x&quot;; expected a number up to 2^53.");
    expect(html).toContain('value="&lt;b&gt;"');
    const broken = await browser.post(at(id), { ...form, filter: '{"a": ' });
    expect([broken.status, broken.html.includes("Filter (JSON) is not JSON: ")]).toEqual([422, true]);
    expect(await shown(id)).toMatchObject({ url: "https://example.com/hook", filter: null });
  });

  it("does not overwrite another's changes, unless it is saved once more", async () => {
    const id = await created();
    const browser = await signedIn();
    const form = await formOf((await browser.get(at(id))).html);
    await env.DB.prepare("UPDATE destinations SET description = 'Theirs', updated_at = ?1")
      .bind(NOW + 5)
      .run();
    const refused = await browser.post(at(id), { ...form, description: "Mine" });
    expect([refused.status, refused.html.includes("was changed after you opened this form")]).toEqual([
      422,
      true,
    ]);
    expect(await shown(id)).toMatchObject({ description: "Theirs" });
    expect((await browser.post(at(id), await formOf(refused.html))).status).toBe(303);
    expect(await shown(id)).toMatchObject({ description: "Mine" });
  });

  it("is not saved without the time when the destination was read", async () => {
    const id = await created();
    const browser = await signedIn();
    const form = await formOf((await browser.get(at(id))).html);
    const { read_at: _, ...untimed } = form;
    for (const posted of [untimed, { ...untimed, read_at: " " }])
      expect((await browser.post(at(id), { ...posted, description: "Mine" })).status).toBe(422);
    const previewed = await browser.post(at(id), { ...untimed, action: "preview", description: "Mine" });
    expect((await browser.post(at(id), await formOf(previewed.html))).status).toBe(422);
    expect(await shown(id)).not.toMatchObject({ description: "Mine" });
  });

  it("does not overwrite another's changes after a preview either", async () => {
    const id = await created();
    const browser = await signedIn();
    const form = await formOf((await browser.get(at(id))).html);
    await env.DB.prepare("UPDATE destinations SET description = 'Theirs', updated_at = ?1")
      .bind(NOW + 5)
      .run();
    for (const filter of ["", "{"]) {
      const shownAgain = await browser.post(at(id), { ...form, filter, action: "preview" });
      expect((await browser.post(at(id), await formOf(shownAgain.html))).status).toBe(422);
    }
    expect(await shown(id)).toMatchObject({ description: "Theirs" });
  });

  it("previews which of the last events its filter takes, and saves nothing", async () => {
    const id = await created();
    const browser = await signedIn();
    for (const total of [5, 500])
      await call("POST", "/v1/events", { type: "order.paid", data: { total }, tenant: "acme" });
    const form = await formOf((await browser.get(at(id))).html);
    const preview = { ...form, filter: '{"total": {"gte": 100}}', action: "preview" };
    const { status, html } = await browser.post(at(id), preview);
    expect([status, html.includes("Takes 1 of the last 2 events.")]).toEqual([200, true]);
    expect(html).toContain("not taken: the filter does not match");
    expect(await shown(id)).toMatchObject({ filter: null });
  });

  it("offers messages for chats only to the operator's own destinations", async () => {
    const [own, other] = [await created({}, "operator"), await created()];
    const browser = await signedIn();
    expect((await browser.get(at(own))).html).toContain('name="template"');
    expect((await browser.get(at(other))).html).not.toContain('name="template"');
    const form = await formOf((await browser.get(at(own))).html);
    expect((await browser.post(at(own), { ...form, template: "slack" })).status).toBe(303);
    expect(await shown(own)).toMatchObject({ template: "slack" });
  });
});

describe("a new destination", () => {
  const NEW = "/dashboard/destinations/new";

  it("that signs with a key pair shows its public key, and no secret", async () => {
    const browser = await signedIn();
    const form = await formOf((await browser.get(NEW)).html);
    const { status, html } = await browser.post(NEW, {
      ...form,
      url: "https://a.example/",
      signature: "ed25519",
    });
    expect([status, /whpk_[A-Za-z0-9+/=]{30,}/.test(html), /whs(ec|k)_/.test(html)]).toEqual([
      200,
      true,
      false,
    ]);
  });

  it("may be http if the deployment calls private addresses, and the form says so", async () => {
    const hint = "https, or http";
    expect((await (await signedIn()).get(NEW)).html).not.toContain(hint);
    const browser = testDashboard({ allowPrivate: true });
    await browser.signIn();
    const { html } = await browser.get(NEW);
    expect(html).toContain(hint);
    const created = await browser.post(NEW, { ...(await formOf(html)), url: "http://127.0.0.1:9000/hook" });
    expect(created.status).toBe(200);
  });
});

describe("deleting a destination", () => {
  it("needs a confirmation, which says what happens", async () => {
    const id = await created({ description: "<i>Billing" });
    const browser = await signedIn();
    const { status, html } = await browser.get(at(id, "delete"));
    expect([status, html.includes("Delete &lt;i&gt;Billing?"), html.includes("cancelled")]).toEqual([
      200,
      true,
      true,
    ]);
    expect((await shown(id)).id).toBe(id);
    const done = await browser.post(at(id, "delete"));
    expect([done.status, done.headers.get("location")]).toEqual([303, "/dashboard?done=deleted"]);
    expect((await call("GET", `/v1/destinations/${id}`)).status).toBe(404);
    expect((await browser.get(at(id))).status).toBe(404);
  });
});

describe("a visitor who may not change a destination", () => {
  it("with the key of another tenant finds none", async () => {
    const id = await created();
    const browser = await signedInWith({ tenant: "other", scopes: ["read", "admin"] });
    for (const page of ["edit", "delete"]) {
      expect((await browser.get(at(id, page))).status).toBe(404);
      expect((await browser.post(at(id, page), { description: "Mine" })).status).toBeGreaterThanOrEqual(404);
    }
    expect(await shown(id)).toMatchObject({ description: null });
  });

  it("with a read-only key is informed", async () => {
    const id = await created();
    const browser = await signedInWith({ tenant: "acme", scopes: ["read"] });
    for (const page of ["edit", "delete"]) {
      const { status, html } = await browser.get(at(id, page));
      expect([status, html.includes("This session can only read")]).toEqual([403, true]);
      expect((await browser.post(at(id, page), { description: "Mine" })).status).toBeGreaterThanOrEqual(403);
    }
    expect((await browser.get(`/dashboard/destinations/${id}`)).html).not.toContain(at(id));
  });

  it("from another site is refused", async () => {
    const id = await created();
    const browser = await signedIn();
    const foreign = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    for (const page of ["edit", "delete"])
      expect((await browser.post(at(id, page), { description: "x" }, foreign)).status).toBe(403);
    expect(await shown(id)).toMatchObject({ description: null });
  });
});
