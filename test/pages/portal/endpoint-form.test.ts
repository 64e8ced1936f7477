/** Further parts of the form of an endpoint: the preview of a filter, the body, and the forms of the signature. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventNumber } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { visitor } from "../../support/portal.ts";

const HOOK = "https://example.com/hook";
const { call } = testApi();
const textOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
const faultAt = (html: string, field: string) =>
  new RegExp(`id="f-${field}-fault"><p>([^<]*)</p>`).exec(html)?.[1];

async function endpointOf(tenant = "acme", settings: object = {}): Promise<string> {
  return (await call("POST", "/v1/destinations", { url: HOOK, tenant, ...settings })).json.id;
}

const viewOf = async (id: string) => (await call("GET", `/v1/destinations/${id}`)).json;
const rowOf = (id: string) =>
  env.DB.prepare("SELECT * FROM destinations WHERE id = ?1").bind(id).first<Record<string, unknown>>();

async function post(data: object, more: object = {}): Promise<string> {
  return (await call("POST", "/v1/events", { type: "order.paid", data, tenant: "acme", ...more })).json.id;
}

/** The preview in a page: its summary, and each event with whether it is taken. */
function previewIn(html: string): readonly string[] {
  const [, shown = ""] = /<output class="stack" id="preview">(.*?)<\/output>/s.exec(html) ?? [];
  const items = [...shown.matchAll(/<li>.*?<\/time>(.*?)<\/li>/gs)].map(([, item = ""]) =>
    textOf(item).trim(),
  );
  return [textOf(/<p>(.*?)<\/p>/.exec(shown)?.[1] ?? ""), ...items];
}

const form = { url: HOOK, which: "all" };

beforeEach(emptyDatabase);

describe("the preview of an endpoint", () => {
  it("shows which of the last events its form takes, and why not the others, and saves nothing", async () => {
    const id = await endpointOf();
    await post({ total: 5 });
    await post({ total: 500 });
    await post({ total: 500 }, { type: "cart.left" });
    await call("POST", "/v1/events", { type: "order.paid", data: { total: 900 }, tenant: "rival" });
    const before = await rowOf(id);
    const browser = await visitor("acme");
    const typed = { ...form, which: "some", other_types: "order.*", filter: '{"total": {"gte": 100}}' };
    const { status, html } = await browser.post(`/portal/endpoints/${id}/preview`, typed);
    expect(status).toBe(200);
    expect(previewIn(html)).toEqual([
      "Takes 1 of the last 3 events.",
      "cart.left not taken: its type is not among those chosen",
      "order.paid taken",
      "order.paid not taken: the filter does not match",
    ]);
    expect(html).toContain('name="filter"');
    expect(html).toContain("{&quot;total&quot;: {&quot;gte&quot;: 100}}");
    expect(html).toMatch(/href="\/portal\/deliveries\/dlv_/);
    expect(await rowOf(id)).toEqual(before);
  });

  it("shows as many custom signature forms as before, and an empty one", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const typed = { ...form, template_0_content: "", template_0_signature_header: "" };
    const { html } = await browser.post(`/portal/endpoints/${id}/preview`, typed);
    expect(html.match(/name="template_\d_content"/g)).toEqual(['name="template_0_content"']);
  });

  it("is in the visitor's language, and says when there are no events", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme", { language: "de" });
    const { html } = await browser.post(`/portal/endpoints/${id}/preview`, form);
    expect(previewIn(html)).toEqual(["Es gibt noch keine Ereignisse, an denen man es ausprobieren kann."]);
  });

  it.each([
    [{ filter: "{" }, "filter", /not valid JSON/],
    [{ filter: '{"total": {"between": 1}}' }, "filter", /not valid.*\(total/],
    [{ which: "some" }, "event_types", /at least one type/],
  ])("is refused for %j, at the field", async (fields, field, text) => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const { status, html } = await browser.post(`/portal/endpoints/${id}/preview`, { ...form, ...fields });
    expect([status, faultAt(html, field)]).toEqual([422, expect.stringMatching(text)]);
  });

  it("is not available to visitors who may not see contents, because a filter would reveal them", async () => {
    const id = await endpointOf();
    await post({ total: 5 });
    const browser = await visitor("acme", { access: { may_see_payloads: false } });
    expect((await browser.get(`/portal/endpoints/${id}/change`)).html).not.toContain("/preview");
    const { status, html } = await browser.post(`/portal/endpoints/${id}/preview`, form);
    expect([status, html.includes("You may not try settings on past events here.")]).toEqual([403, true]);
    expect(html).not.toContain("order.paid");
    const other = await visitor("acme");
    expect((await other.get(`/portal/endpoints/${id}/change`)).html).toContain(
      `formaction="/portal/endpoints/${id}/preview#preview"`,
    );
    expect((await other.get("/portal/endpoints/new")).html).not.toContain("/preview");
  });
});

describe("the form of an endpoint that was changed meanwhile", () => {
  const readAtIn = (html: string) => /name="read_at" value="([^"]+)"/.exec(html)?.[1] ?? "";
  const change = (id: string) =>
    env.DB.prepare("UPDATE destinations SET event_types = '[\"order.paid\"]', updated_at = ?2 WHERE id = ?1")
      .bind(id, NOW + 5)
      .run();

  it.each([
    [{}, "was changed after you opened this form"],
    [{ language: "de" }, "nachdem Sie dieses Formular geöffnet hatten"],
  ])("overwrites nothing until it is sent once more, also after a preview: %j", async (link, text) => {
    const id = await endpointOf();
    const browser = await visitor("acme", link);
    const at = `/portal/endpoints/${id}`;
    const mine = {
      ...form,
      description: "Mine",
      read_at: readAtIn((await browser.get(`${at}/change`)).html),
    };
    await change(id);
    for (const filter of ["", "{", '{"total": {"between": 1}}']) {
      const { html } = await browser.post(`${at}/preview`, { ...mine, filter });
      expect(readAtIn(html)).toBe(mine.read_at);
    }
    const { read_at: _, ...untimed } = mine;
    expect((await browser.post(`${at}/preview`, untimed)).html).toContain('name="read_at" value=""');
    expect((await browser.post(`${at}/change`, untimed)).status).toBe(422);
    const refused = await browser.post(`${at}/change`, mine);
    expect([refused.status, refused.html.includes(text), refused.html.includes('value="Mine"')]).toEqual([
      422,
      true,
      true,
    ]);
    expect(await viewOf(id)).toMatchObject({ event_types: ["order.paid"], description: null });
    const again = await browser.post(`${at}/change`, { ...mine, read_at: readAtIn(refused.html) });
    expect(again.status).toBe(303);
    expect(await viewOf(id)).toMatchObject({ event_types: null, description: "Mine" });
  });
});

describe("the body and the signature forms of an endpoint", () => {
  const own = {
    template_0_content: "{timestamp}.{body}",
    template_0_signature_header: "X-Signature",
    template_0_encoding: "base64",
  };

  it("are chosen when it is added, and shown on its page", async () => {
    const browser = await visitor("acme");
    const signing = { body: "data", sign_standard: "on", sign_stripe: "on", ...own };
    const { status } = await browser.post("/portal/endpoints/new", { ...form, ...signing });
    expect(status).toBe(200);
    const id = await env.DB.prepare("SELECT id FROM destinations").first<string>("id");
    expect(await viewOf(id ?? "")).toMatchObject({
      body: "data",
      signature_forms: [
        { form: "standard" },
        { form: "stripe" },
        {
          form: "template",
          content: "{timestamp}.{body}",
          signature_header: "X-Signature",
          encoding: "base64",
        },
      ],
    });
    const { html } = await browser.get(`/portal/endpoints/${id}`);
    expect(textOf(html)).toContain("What is sent The data alone, as it was posted");
    const change = (await browser.get(`/portal/endpoints/${id}/change`)).html;
    expect(change).toMatch(/name="sign_stripe" checked/);
    expect(change).not.toMatch(/name="sign_github" checked/);
    expect(change).toContain('name="template_1_content"');
  });

  it("stay as they are when the form is saved unchanged, down to the stored bytes", async () => {
    const forms = [
      { form: "standard" },
      { form: "template", signature_header: "X-Sig", content: "{body}", prefix: "v1= ", algorithm: "sha512" },
    ];
    const id = await endpointOf("acme", { body: "data", signature_forms: forms });
    const before = await rowOf(id);
    const browser = await visitor("acme");
    const typed = {
      ...form,
      body: "data",
      sign_standard: "on",
      template_0_content: "{body}",
      template_0_signature_header: "X-Sig",
      template_0_prefix: "v1= ",
      template_0_algorithm: "sha512",
      description: "Renamed",
    };
    expect((await browser.save(`/portal/endpoints/${id}/change`, typed)).status).toBe(303);
    const after = await rowOf(id);
    expect(after).toMatchObject({ description: "Renamed", body: before?.body });
    expect(after?.signature_forms).toBe(before?.signature_forms);
  });

  it("are changed, and removed again", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const change = (more: object) => browser.save(`/portal/endpoints/${id}/change`, { ...form, ...more });
    await change({ body: "data", sign_github: "on" });
    expect(await viewOf(id)).toMatchObject({ body: "data", signature_forms: [{ form: "github" }] });
    await change({ body: "envelope", sign_standard: "on" });
    expect(await viewOf(id)).toMatchObject({ body: "envelope", signature_forms: null });
  });

  it.each<[Record<string, string>, string, RegExp]>([
    [{ body: "xml" }, "body", /^Choose one from the list/],
    [
      { template_0_content: "no body", template_0_signature_header: "X-A" },
      "template_0_content",
      /\{body\} once/,
    ],
    [{ template_0_content: "{body}" }, "template_0_signature_header", /name of a header/],
    [
      { sign_standard: "on", template_0_content: "{body}", template_0_signature_header: "a b" },
      "template_0_signature_header",
      /name of a header/,
    ],
    [{ ...own, template_0_prefix: "{body}" }, "template_0_prefix", /100 plain characters/],
    [{ ...own, template_0_algorithm: "md5" }, "template_0_algorithm", /^Choose one from the list/],
    [{ sign_standard: "on", sign_svix: "on", ...own, headers: "X-Signature: 1" }, "headers", /cannot be set/],
  ])("%j is refused at the field, and the input stays", async (fields, field, text) => {
    const browser = await visitor("acme");
    const { status, html } = await browser.post("/portal/endpoints/new", { ...form, ...fields });
    expect([status, faultAt(html, field)]).toEqual([422, expect.stringMatching(text)]);
    expect(html).toMatch(/<details open=""><summary>Body and signature|id="f-headers-fault"/);
    expect(html).toContain(`name="url"`);
  });

  it("that a key pair cannot sign are refused at the choice", async () => {
    const id = await endpointOf("acme", { signature: "ed25519" });
    const browser = await visitor("acme");
    const typed = { ...form, sign_standard: "on", sign_stripe: "on" };
    const { status, html } = await browser.save(`/portal/endpoints/${id}/change`, typed);
    expect([status, faultAt(html, "signature_forms")]).toEqual([
      422,
      expect.stringContaining("a key pair works only with Standard Webhooks"),
    ]);
  });
});

describe("the deliveries of an endpoint", () => {
  const labels = { tags: ["import"], channels: ["eu"] };

  it("show tags and channels, but no tags to visitors who may not see contents", async () => {
    const id = await endpointOf();
    await post({ n: 1 }, labels);
    const shown = async (link: object = {}) => {
      const browser = await visitor("acme", link);
      const list = (await browser.get(`/portal/endpoints/${id}?state=queued`)).html;
      const at = /href="(\/portal\/deliveries\/[^"]+)"/.exec(list)?.[1] ?? "";
      const page = (await browser.get(at)).html;
      return [list, page].map((html) => [html.includes("Tags: import"), html.includes("Channels: eu")]);
    };
    expect(await shown()).toEqual([
      [true, true],
      [true, true],
    ]);
    expect(await shown({ access: { may_see_payloads: false } })).toEqual([
      [false, true],
      [false, true],
    ]);
  });

  it("cannot be sent again if their event has been erased, and say so", async () => {
    const id = await endpointOf();
    const event = await post({ n: 1 });
    const ended = { state: "delivered", attempts: 1, give_up_at: NOW, ended_at: NOW };
    await insertRow("deliveries", { destination_id: id, event_id: eventNumber(event), ...ended });
    await env.DB.prepare("UPDATE bundles SET header = json_set(header, '$.erased', json('[0,0]'))").run();
    const browser = await visitor("acme");
    const list = (await browser.get(`/portal/endpoints/${id}`)).html;
    expect(list).toContain("Contents erased: cannot be sent again.");
    expect(list).not.toContain('name="delivery"');
    const at = /href="(\/portal\/deliveries\/[^"]+)"/.exec(list)?.[1] ?? "";
    const { html } = await browser.get(at);
    expect(html).toContain("It cannot be sent again: the contents of the event have been erased.");
    expect(html).not.toContain("/resend");
  });
});
