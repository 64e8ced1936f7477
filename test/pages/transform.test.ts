/** The page of a transformation on dashboard and portal: forms, preview, versions, faults, and who may do what. */
import { beforeEach, describe, expect, test } from "vitest";
import { readyTemplate, readyTemplates } from "../../src/core/transform/ready.ts";
import { deliveryKey } from "../../src/ids.ts";
import { templateTyped, typedOf } from "../../src/pages/ui/transform-form.tsx";
import { emptyDatabase, insertRow, NOW, testApi } from "../support/api.ts";
import { customer, signedIn } from "../support/dashboard.ts";
import { visitor } from "../support/portal.ts";

const { call } = testApi();
const HOSTILE = "</textarea><script>x</script>\"'&";

beforeEach(emptyDatabase);

async function endpointOf(tenant = "acme", more: object = {}): Promise<string> {
  const { json } = await call("POST", "/v1/destinations", {
    url: "https://example.com/hook",
    tenant,
    ...more,
  });
  return json.id;
}

const transformOf = async (id: string) => (await call("GET", `/v1/destinations/${id}`)).json.transform;
const post = async (data: unknown) =>
  (await call("POST", "/v1/events", { type: "order.paid", tenant: "acme", data })).json;

/** The value of a field as a browser reads it from the page, and sends it. */
function typedOn(html: string, name: string): string {
  const area = new RegExp(`<textarea[^>]* name="${name}"[^>]*>\\n?([^<]*)</textarea>`).exec(html)?.[1];
  const text = area ?? new RegExp(`<input[^>]* name="${name}" value="([^"]*)"`).exec(html)?.[1] ?? "";
  return text
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&")
    .replaceAll(/\r?\n/g, "\r\n");
}

const parts = ["read_version", "body", "content_type", "headers", "method", "path", "query"];
const formOn = (html: string) => Object.fromEntries(parts.map((name) => [name, typedOn(html, name)]));

describe.each([
  ["dashboard", () => signedIn(), "/dashboard/destinations"],
  ["portal", () => visitor("acme"), "/portal/endpoints"],
] as const)("on the %s", (_, open, base) => {
  const arranged = async (transform: unknown = null) => {
    const id = await endpointOf("acme", { transform });
    return { id, path: `${base}/${id}/transform`, browser: await open() };
  };

  test("a ready template fills the form, and is saved unchanged, whatever browsers do to line breaks", async () => {
    for (const name of readyTemplates) {
      const { id, path, browser } = await arranged();
      const { html } = await browser.get(`${path}?ready=${name}`);
      const saved = await browser.post(path, formOn(html));
      expect([saved.status, saved.headers.get("location")]).toEqual([303, `${path}?done=saved`]);
      const { body, ...rest } = (await transformOf(id)).template;
      const { body: wanted, ...others } = readyTemplate(name);
      expect([body.trim(), rest]).toEqual([wanted?.trim(), others]);
      const again = await browser.get(path);
      expect(again.html).toContain(`${base}/${id}`);
      expect((await browser.post(path, formOn(again.html))).status).toBe(303);
      expect((await call("GET", `/v1/destinations/${id}/transform/versions`)).json.data).toHaveLength(1);
      await emptyDatabase();
    }
  });

  test("all parts are saved, and an empty form sends events as they are", async () => {
    const { id, path, browser } = await arranged();
    const typed = {
      read_version: "0",
      body: "a\r\n{{ type }}",
      content_type: "text/plain",
      headers: "X-A: {{ id }}\r\nX-B: b",
      method: "PUT",
      path: "/{{ data.n }}",
      query: "t: {{ type }}",
    };
    expect((await browser.post(path, typed)).status).toBe(303);
    expect((await transformOf(id)).template).toEqual({
      body: "a\n{{ type }}",
      content_type: "text/plain",
      headers: { "X-A": "{{ id }}", "X-B": "b" },
      method: "PUT",
      path: "/{{ data.n }}",
      query: { t: "{{ type }}" },
    });
    expect((await browser.get(`${base}/${id}`)).html).toContain(`href="${path}"`);
    expect((await browser.post(path, { read_version: "1" })).status).toBe(303);
    expect(await transformOf(id)).toBeNull();
  });

  test("a refused form keeps the input, and shows each fault with its place at the field", async () => {
    const { id, path, browser } = await arranged();
    const typed = { read_version: "0", body: `a\n{% nosuch %}${HOSTILE}`, path: "/x" };
    const refused = await browser.post(path, typed);
    expect(refused.status).toBe(422);
    expect(refused.html).toMatch(/id="f-body-fault">.*line 2/s);
    expect(refused.html).not.toContain("<script>x");
    expect(typedOn(refused.html, "path")).toBe("/x");
    const several = await browser.post(path, { read_version: "0", headers: "nocolon", path: "no" });
    expect(several.html).toContain('id="f-headers-fault"');
    const named = await browser.post(path, { read_version: "0", headers: "Host: x", path: "no" });
    expect(named.html).toContain('id="f-headers-fault"');
    expect(named.html).toContain('id="f-path-fault"');
    expect(await transformOf(id)).toBeNull();
  });

  test("a form that was open while another version was saved does not replace it silently", async () => {
    const { id, path, browser } = await arranged();
    const { html } = await browser.get(`${path}?ready=slack`);
    await call("PATCH", `/v1/destinations/${id}`, { transform: { template: { body: "other" } } });
    const refused = await browser.post(path, formOn(html));
    expect(refused.status).toBe(422);
    expect(refused.html).toContain('role="alert"');
    expect((await transformOf(id)).template).toEqual({ body: "other" });
    expect((await browser.post(path, formOn(refused.html))).status).toBe(303);
    expect((await transformOf(id)).template).toEqual(readyTemplate("slack"));
  });

  test("a form that was tried after another version was saved does not replace it silently either", async () => {
    const { id, path, browser } = await arranged();
    const { html } = await browser.get(`${path}?ready=slack`);
    await call("PATCH", `/v1/destinations/${id}`, { transform: { template: { body: "other" } } });
    for (const fields of [{}, { body: "{% nosuch %}" }]) {
      const tried = await browser.post(`${path}/preview`, { ...formOn(html), ...fields });
      expect((await browser.post(path, formOn(tried.html))).status).toBe(422);
    }
    expect((await transformOf(id)).template).toEqual({ body: "other" });
  });

  test("a preview shows the last events and an example before and after, with faults, and saves nothing", async () => {
    const { id, path, browser } = await arranged();
    await call("PUT", "/v1/event-types/order.paid", { example: { text: "from the catalogue" } });
    await post({ text: "no json" });
    await post({ text: 5, note: HOSTILE });
    const body = '{"a": {{ data.text }}, "n": {{ data.note | json }} }';
    const { status, html } = await browser.post(`${path}/preview`, {
      read_version: "0",
      body,
      path: "/x",
      headers: "X-A: {{ type }}",
      type: "order.paid",
    });
    expect(status).toBe(200);
    expect(html).toContain("POST https://example.com/hook/x");
    expect(html).toContain("x-a: order.paid");
    expect(html).toContain("from the catalogue");
    expect(html).toMatch(/class="fault break">body: /);
    expect(html).toContain("&lt;/textarea&gt;&lt;script&gt;");
    expect(html).not.toContain("<script>x");
    expect(typedOn(html, "body")).toBe(body);
    expect(await transformOf(id)).toBeNull();
    const wrong = await browser.post(`${path}/preview`, { read_version: "0", body: "{% nosuch %}" });
    expect([wrong.status, wrong.html.includes('id="f-body-fault"')]).toEqual([422, true]);
  });

  test("versions are shown with author and time, in the form and restored", async () => {
    const { id, path, browser } = await arranged({ template: { body: "first" } });
    await call("PATCH", `/v1/destinations/${id}`, { transform: { template: { body: "second" } } });
    const { html } = await browser.get(path);
    expect(html).toContain(`${path}?version=1`);
    expect(html).toMatch(/By ADMIN_KEY|by the sender/);
    expect(typedOn((await browser.get(`${path}?version=1`)).html, "body")).toBe("first");
    expect((await browser.post(`${path}/restore`, { version: "1" })).status).toBe(303);
    expect((await transformOf(id)).template).toEqual({ body: "first" });
    expect((await browser.post(`${path}/restore`, { version: "77" })).status).toBeGreaterThanOrEqual(404);
    expect((await browser.post(`${path}/restore`, { version: "x" })).status).toBeGreaterThanOrEqual(404);
  });

  test("the last faults of a transformation are on its page and on that of the destination", async () => {
    const { id, path, browser } = await arranged({ template: { body: '{"a": {{ data.text }} }' } });
    const { id: event, deliveries } = await post({ text: HOSTILE });
    const { eventId } = deliveryKey(deliveries[0].id) ?? {};
    await insertRow("deliveries", {
      destination_id: id,
      event_id: eventId,
      state: "waiting",
      reason: "transform_failed",
      attempts: 0,
      give_up_at: NOW + 1000,
      log: [],
    });
    for (const page of [path, `${base}/${id}`]) {
      const { html } = await browser.get(page);
      expect(html).toContain("body: renders text that is not JSON");
      expect(html).toContain(base.startsWith("/portal") ? deliveries[0].id : event);
    }
  });

  test("the form of a queue has no parts of a URL", async () => {
    const [account_id, queue_id, token] = ["0".repeat(32), "1".repeat(32), "t".repeat(40)];
    const queue = { url: undefined, kind: "queue", account_id, queue_id, token };
    const id = await endpointOf("acme", queue);
    const browser = await open();
    const path = `${base}/${id}/transform`;
    const { html } = await browser.get(`${path}?ready=slack`);
    expect(html).not.toMatch(/name="(path|query|method)"/);
    expect((await browser.post(path, formOn(html))).status).toBe(303);
  });

  test("another tenant's transformation is not found", async () => {
    const id = await endpointOf("other", { transform: { template: { body: "secret" } } });
    const browser = base.startsWith("/portal") ? await open() : await customer("acme", false);
    const path = `${base}/${id}/transform`;
    for (const { status, html } of [
      await browser.get(path),
      await browser.post(path, { read_version: "1", body: "mine" }),
      await browser.post(`${path}/preview`, { body: "mine" }),
      await browser.post(`${path}/restore`, { version: "1" }),
    ]) {
      expect(status).toBeGreaterThanOrEqual(404);
      expect(html).not.toContain("secret");
    }
    expect((await transformOf(id)).template).toEqual({ body: "secret" });
  });
});

const PATHS = ["", "/preview", "/restore"];

test("a read-only key sees the template and changes nothing", async () => {
  const id = await endpointOf("acme", { transform: { template: { body: "kept" } } });
  const browser = await customer("acme", true);
  const path = `/dashboard/destinations/${id}/transform`;
  const { html } = await browser.get(path);
  expect(html).toContain("kept");
  expect(html).toContain('<fieldset class="stack" disabled');
  expect((await browser.post(path, { read_version: "1", body: "x" })).status).toBe(403);
  await browser.post(`${path}/restore`, { version: "1" });
  expect((await transformOf(id)).template).toEqual({ body: "kept" });
});

test.each([
  [{ access: { may_edit_endpoints: false } }, PATHS],
  [{ access: { may_transform: false } }, PATHS],
  [{ access: { may_see_payloads: false } }, ["/preview"]],
  [{ read_only: true }, PATHS],
])("a visitor under %j is refused these forms: %j", async (link, refused) => {
  const id = await endpointOf("acme", { transform: { template: { body: "kept" } } });
  await post({ text: "a canary" });
  const browser = await visitor("acme", link);
  const path = `/portal/endpoints/${id}/transform`;
  const { status, html } = await browser.get(path);
  expect(status).toBe(200);
  expect(html.includes(`formaction="${path}/preview`)).toBe(!refused.includes("/preview"));
  expect(html.includes(`action="${path}/restore"`)).toBe(false);
  for (const more of PATHS) {
    const answer = await browser.post(path + more, { read_version: "1", body: "kept", version: "1" });
    expect([more, answer.status === 403]).toEqual([more, refused.includes(more)]);
    expect(answer.html).not.toContain("a canary");
  }
  expect((await transformOf(id)).template).toEqual({ body: "kept" });
});

test("the German pages are entirely in German", async () => {
  const id = await endpointOf("acme", { transform: { template: { body: "x" } } });
  const browser = await visitor("acme", { language: "de" });
  const { html } = await browser.get(`/portal/endpoints/${id}/transform`);
  for (const text of ["Umformung", "Ausgehen von", "Fassung 1", "vom Absender"]) expect(html).toContain(text);
});

test.each([
  { body: "a\r\nb", headers: { "x-a": " spaced " }, query: { "a: b": "c", A: "1", a: "2", "{": "x" } },
  { body: "  \n", method: "POST" as const, headers: {}, path: "/a" },
  { headers: { "x-a": "{% if id %}\n1{% endif %}" }, content_type: "a/b" },
  {},
])("a form that is saved unchanged keeps the stored template: %j", (template) => {
  expect(templateTyped(typedOf(template), template)).toEqual({ kind: "ok", value: template });
  const { body: _, ...edited } = template as { body?: string };
  const {
    method: __,
    headers,
    ...rest
  } = { headers: undefined, method: undefined, ...edited } as Record<string, unknown>;
  const read = templateTyped({ ...typedOf(template), body: "new" }, template);
  const kept = headers && Object.keys(headers).length > 0 ? { headers } : {};
  expect(read).toEqual({ kind: "ok", value: { ...rest, ...kept, body: "new" } });
});
