/** The catalogue of event types on the dashboard: who sees it, what it shows, and where it suggests names. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { customer, signedIn, signedInWith, testDashboard } from "../../support/dashboard.ts";

const PATH = "/dashboard/event-types";
const schema = { type: "object", required: ["total"], properties: { total: { minimum: 0 } } };
const { call } = testApi();

beforeEach(emptyDatabase);

async function put(name: string, body: object = {}): Promise<void> {
  expect((await call("PUT", `/v1/event-types/${name}`, body)).status).toBe(200);
}

/** The text of the page's code with that id, as a reader copies it. */
function codeIn(html: string, id: string): string {
  const [, text = ""] = new RegExp(`<code id="${id}">([^<]*)</code>`).exec(html) ?? [];
  return text.replaceAll("&quot;", '"');
}

/** The names of the types on the page, in order. */
const namesIn = (html: string) =>
  [...html.matchAll(/<h2 [^>]*id="type-\d+"[^>]*>([^<]*)</g)].map(([, name]) => name);

/** The links that lead to the page behind this one. */
const nextIn = (html: string) => /href="(\/dashboard\/event-types\?after=[^"]+)"/.exec(html)?.[1];

const visitors = [
  ["the operator", signedIn],
  ["a customer", () => customer("acme")],
  ["a customer who may change nothing", () => customer("acme", true)],
] as const;

describe("the page of event types", () => {
  it.each(
    visitors,
  )("shows %s each type with its description, its example and its schema", async (_, open) => {
    const order = { description: "An order has been paid.", schema, example: { total: 5 }, validate: true };
    await put("order.paid", order);
    await put("ping");
    const { status, html } = await (await open()).get(PATH);
    expect(status).toBe(200);
    expect(namesIn(html)).toEqual(["order.paid", "ping"]);
    const [, paid = "", ping = ""] = html.split("<article");
    expect(paid).toContain("An order has been paid.");
    expect(paid).toContain(">Validated<");
    expect(codeIn(paid, "example-0")).toBe('{\n  "total": 5\n}');
    expect(codeIn(/<details>.*<\/details>/s.exec(paid)?.[0] ?? "", "schema-0")).toBe(
      JSON.stringify(schema, null, 2),
    );
    expect(ping).toContain(">Not validated<");
    expect(ping).not.toContain("<code");
  });

  it("keeps each digit of an example when its form is saved", async () => {
    const browser = await signedIn();
    const example = '{"total": 12345678901234567890}';
    const form = { name: "order.paid", description: "", example, schema: "", retention_days: "" };
    expect((await browser.post(`${PATH}/new`, form)).status).toBe(303);
    expect((await browser.get(`${PATH}/order.paid/edit`)).html).toContain(
      "&quot;total&quot;: 12345678901234567890",
    );
  });

  it("is in the navigation, where it is the current page", async () => {
    const browser = await customer("acme");
    expect((await browser.get("/dashboard")).html).toContain(`<a href="${PATH}">`);
    expect((await browser.get(PATH)).html).toContain(`<a href="${PATH}" aria-current="page">`);
  });

  it("is not shown without a sign-in", async () => {
    await put("secret.plan", { description: "Nobody may know" });
    const { status, html } = await testDashboard().get(PATH);
    expect([status, html.includes("secret.plan"), html.includes("Nobody may know")]).toEqual([
      401,
      false,
      false,
    ]);
  });

  it("hides archived types", async () => {
    await put("new");
    await put("old", { archived: true });
    expect(namesIn((await (await signedIn()).get(PATH)).html)).toEqual(["new"]);
  });

  it("lists all types page by page, each once", async () => {
    const names = Array.from({ length: 45 }, (_, i) => `type${String(i).padStart(2, "0")}`);
    for (const name of names) await put(name);
    const browser = await customer("acme");
    const pages: (string | undefined)[][] = [];
    for (let path: string | undefined = PATH; path !== undefined; ) {
      const { html } = await browser.get(path);
      pages.push(namesIn(html));
      expect(html.includes("First page")).toBe(pages.length > 1);
      path = nextIn(html);
    }
    expect(pages.map(({ length }) => length)).toEqual([20, 20, 5]);
    expect(pages.flat()).toEqual(names);
    expect((await browser.get(`${PATH}?after=zzz`)).html).toContain("No further event types");
  });

  it("shows the operator how to add the first type, with a working command", async () => {
    const { html } = await (await signedIn()).get(PATH);
    expect(html).toContain("No event types yet");
    const [, path = "", body = ""] =
      /curl -X PUT https:\/\/breakwater\.example(\S+) .*--json &#39;(.*)&#39;/s.exec(html) ?? [];
    const { status } = await call("PUT", path, JSON.parse(body.replaceAll("&quot;", '"')));
    expect(status).toBe(200);
    expect(namesIn((await (await signedIn()).get(PATH)).html)).toEqual(["order.created"]);
  });

  it("has no command for customers, who cannot add types", async () => {
    const { html } = await (await customer("acme")).get(PATH);
    expect(html).toContain("No event types yet");
    expect(html).not.toContain("curl");
  });

  it("shows a schema that was broken in the database", async () => {
    await put("order.paid", { schema });
    await env.DB.prepare("UPDATE event_types SET schema = '{oops'").run();
    const { status, html } = await (await signedIn()).get(PATH);
    expect([status, codeIn(html, "schema-0")]).toEqual([200, "{oops"]);
  });
});

describe("the form of a new destination", () => {
  const FORM = "/dashboard/destinations/new";

  it("suggests the types of the catalogue, without archived ones", async () => {
    for (const name of ["order.paid", "order.created"]) await put(name);
    await put("old", { archived: true });
    const { html } = await (await customer("acme")).get(FORM);
    expect(html).toContain(
      '<datalist id="event-types"><option value="order.created"></option><option value="order.paid"></option></datalist>',
    );
    expect(html).toMatch(/<input [^>]*name="event_types"[^>]* list="event-types"/);
  });

  it("suggests nothing while the catalogue is empty", async () => {
    const { html } = await (await signedIn()).get(FORM);
    expect([html.includes("datalist"), html.includes("list=")]).toEqual([false, false]);
  });
});

describe("the forms of the catalogue", () => {
  const NEW = `${PATH}/new`;
  const stored = async (name: string) => (await call("GET", `/v1/event-types/${name}`)).json;

  it("refuse JSON that is nested deeper than the API takes it", async () => {
    const example = "[".repeat(501) + "]".repeat(501);
    const { status, html } = await (await signedIn()).post(NEW, { name: "order.paid", example });
    expect([status, html.includes("is nested more than 500 levels deep")]).toEqual([422, true]);
  });

  it("add a type, change it, archive it, bring it back and delete it", async () => {
    const browser = await signedIn();
    const form = {
      name: "order.paid",
      example: '{"total": 5}',
      schema: JSON.stringify(schema),
      validate: "on",
      retention_days: "7",
    };
    expect((await browser.post(NEW, form)).headers.get("location")).toBe(`${PATH}?done=type-saved`);
    expect(await stored("order.paid")).toMatchObject({ example: { total: 5 }, schema, validate: true });
    const at = (page: string) => `${PATH}/order.paid/${page}`;
    const page = await browser.get(at("edit"));
    expect([page.status, page.html.includes("&quot;total&quot;: 5")]).toEqual([200, true]);
    await browser.save(at("edit"), { description: "Paid.", example: "", retention_days: "7" });
    expect(await stored("order.paid")).toMatchObject({
      description: "Paid.",
      example: null,
      validate: false,
    });
    await browser.post(at("archive"));
    expect(await stored("order.paid")).toMatchObject({
      archived: true,
      description: "Paid.",
      retention_days: 7,
    });
    expect((await browser.get(PATH)).html).not.toContain("order.paid");
    expect((await browser.get(`${PATH}?archived=yes`)).html).toContain("Restore order.paid");
    await browser.post(at("restore"));
    expect(namesIn((await browser.get(PATH)).html)).toEqual(["order.paid"]);
    expect((await browser.get(at("delete"))).html).toContain("Delete order.paid?");
    await browser.post(at("delete"));
    expect((await browser.get(at("edit"))).status).toBe(404);
  });

  it("name each fault at its field, and overwrite no existing type", async () => {
    await put("order.paid", { description: "Paid." });
    const browser = await signedIn();
    const taken = await browser.post(NEW, { name: "order.paid" });
    expect([taken.status, taken.html.includes('id="f-name-fault"')]).toEqual([422, true]);
    expect(await stored("order.paid")).toMatchObject({ description: "Paid." });
    for (const name of ["", "a b", "../keys", "<b>"]) {
      const { status, html } = await browser.post(NEW, { name });
      expect([name, status, html.includes('id="f-name-fault"')]).toEqual([name, 422, true]);
    }
    const broken = await browser.post(NEW, { name: "x", schema: "{", example: "]" });
    for (const field of ["schema", "example"]) expect(broken.html).toContain(`id="f-${field}-fault"`);
    const misfit = await browser.post(NEW, { name: "x", schema: '{"type": "string"}', example: "5" });
    expect([misfit.status, misfit.html.includes("Example of the data (JSON)")]).toEqual([422, true]);
  });

  it("keep what somebody else has saved meanwhile, until the form is sent once more", async () => {
    await put("order.paid", { description: "First" });
    const browser = await signedIn();
    const at = `${PATH}/order.paid/edit`;
    const readAt = async () => /name="read_at" value="([^"]+)"/.exec((await browser.get(at)).html)?.[1] ?? "";
    const mine = {
      description: "Mine",
      example: "",
      schema: "",
      retention_days: "",
      read_at: await readAt(),
    };
    await put("order.paid", { description: "Theirs", schema });
    const refused = await browser.post(at, mine);
    expect([refused.status, refused.html.includes("was changed after you opened this form")]).toEqual([
      422,
      true,
    ]);
    const { read_at: _, ...untimed } = mine;
    expect((await browser.post(at, untimed)).status).toBe(422);
    expect(refused.html).toContain('value="Mine"');
    expect(refused.html).toContain(`name="read_at" value="${await readAt()}"`);
    expect(await stored("order.paid")).toMatchObject({ description: "Theirs", schema });
    expect((await browser.post(at, { ...mine, read_at: await readAt() })).status).toBe(303);
    expect(await stored("order.paid")).toMatchObject({ description: "Mine", schema: null });
  });

  it("are refused to a tenant's key", async () => {
    await put("order.paid");
    const browser = await signedInWith({ tenant: "acme", scopes: ["read", "admin"] });
    expect((await browser.get(PATH)).html).not.toContain("Edit order.paid");
    for (const path of [NEW, `${PATH}/order.paid/edit`, `${PATH}/order.paid/delete`])
      expect((await browser.get(path)).status).toBe(403);
    for (const path of [
      NEW,
      `${PATH}/order.paid/edit`,
      `${PATH}/order.paid/archive`,
      `${PATH}/order.paid/delete`,
    ])
      expect((await browser.post(path, { name: "mine" })).status).toBeGreaterThanOrEqual(403);
    expect(await stored("order.paid")).toMatchObject({ archived: false });
  });
});
