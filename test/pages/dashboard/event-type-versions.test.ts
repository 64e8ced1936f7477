/** The page of a type's versions: which destination gets which, what the next one would break, and publishing it. */
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { customer, signedIn } from "../../support/dashboard.ts";

const TYPE = "order.paid";
const PATH = `/dashboard/event-types/${TYPE}/versions`;
const first = { type: "object", required: ["id"], properties: { id: { type: "integer" } } };
const second = { type: "object", required: ["order"], properties: { order: first } };
const conversion = '{"id": "{{ data.order.id }}"}';
const next = { schema: JSON.stringify(second), example: '{"order": {"id": 5}}', conversion, next: "2" };
let now = NOW;
const { call } = testApi({ services: { now: () => now } });

beforeEach(async () => {
  await emptyDatabase();
  await call("PUT", `/v1/event-types/${TYPE}`, { schema: first, example: { id: 1 }, validate: true });
});

async function endpoint(tenant: string, description: string): Promise<void> {
  const body = { url: "https://example.com/hook", tenant, description };
  expect((await call("POST", "/v1/destinations", body)).status).toBe(201);
}

async function published(): Promise<void> {
  now += 1_000;
  const version = { schema: second, example: { order: { id: 5 } }, conversion };
  expect((await call("PUT", `/v1/event-types/${TYPE}/versions/2`, version)).status).toBe(201);
}

/** The rows of the table of destinations, as words. */
const rowsIn = (html: string) =>
  [...html.matchAll(/<tr>(<td.*?)<\/tr>/gs)].map(([, row = ""]) =>
    row
      .replace(/<[^>]*>/g, " ")
      .trim()
      .split(/\s+/),
  );

describe("the page of a type's versions", () => {
  it("shows each version, and which one each destination gets", async () => {
    await endpoint("acme", "Old");
    await published();
    now += 1_000;
    await endpoint("globex", "New");
    const { status, html } = await (await signedIn()).get(PATH);
    expect(status).toBe(200);
    expect([...html.matchAll(/<h2 id="version-(\d)"/g)].map(([, number]) => number)).toEqual(["2", "1"]);
    expect(rowsIn(html).toSorted()).toEqual([
      ["New", "globex", "2"],
      ["Old", "acme", "1"],
    ]);
  });

  it("shows a customer only its own destinations, and no form", async () => {
    await endpoint("acme", "Ours");
    await endpoint("globex", "Theirs");
    await published();
    const browser = await customer("acme");
    const { html } = await browser.get(PATH);
    expect(rowsIn(html)).toEqual([["Ours", "acme", "1"]]);
    expect(html).not.toContain("globex");
    expect(html).not.toContain("<textarea");
    expect((await browser.post(PATH, { ...next, next: "3", action: "publish" })).status).toBe(403);
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json.version).toBe(2);
  });

  it("does not exist for an unknown type", async () => {
    expect((await (await signedIn()).get("/dashboard/event-types/none/versions")).status).toBe(404);
  });
});

describe("the next version", () => {
  it("is tried on recorded events without changes, and the page shows whose it would break", async () => {
    for (const tenant of ["acme", "globex"])
      await call("POST", "/v1/events", { type: TYPE, data: { id: 1 }, tenant });
    const { status, html } = await (await signedIn()).post(PATH, { ...next, action: "try" });
    expect(status).toBe(200);
    expect(html).toContain("It would break events of 2 tenants:");
    expect(rowsIn(html).toSorted()).toEqual([
      ["acme", "1", "1", "0", "0"],
      ["globex", "1", "1", "0", "0"],
    ]);
    expect(html).toContain("{{ data.order.id }}");
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json.version).toBe(1);
  });

  it("would break nothing if it only adds fields", async () => {
    await call("POST", "/v1/events", { type: TYPE, data: { id: 1 }, tenant: "acme" });
    const adds = { schema: JSON.stringify({ type: "object" }), example: '{"id": 2}', action: "try" };
    expect((await (await signedIn()).post(PATH, adds)).html).toContain(
      "Nothing would break: the last 1 event",
    );
  });

  it("is tried with its limits, however their numbers are written", async () => {
    await call("POST", "/v1/events", { type: TYPE, data: { id: 1 }, tenant: "acme" });
    const limited = { schema: '{"properties": {"id": {"minimum": 2.0}}}', example: "", action: "try" };
    expect((await (await signedIn()).post(PATH, limited)).html).toContain(
      "It would break events of 1 tenant:",
    );
  });

  it("is published once, however often the form is sent", async () => {
    const browser = await signedIn();
    const made = await browser.post(PATH, { ...next, action: "publish" });
    expect([made.status, made.headers.get("location")]).toEqual([303, `${PATH}?done=version-published`]);
    expect((await browser.post(PATH, { ...next, action: "publish" })).html).toContain(
      "Version 2 of order.paid is published",
    );
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json.version).toBe(2);
  });

  it.each([
    ["no JSON", { schema: "{" }, "is not JSON"],
    ["no schema", { schema: '{"type": "thing"}' }, "JSON Schema of the data"],
    ["a conversion that is no Liquid", { conversion: "{{" }, "Conversion to the version before"],
    ["an example that does not fit", { example: "1" }, "Example of the data"],
  ])("with %s is refused beside its field, with the input", async (_, fields, said) => {
    const { status, html } = await (await signedIn()).post(PATH, { ...next, ...fields, action: "publish" });
    expect(status).toBe(422);
    expect(html).toContain(said);
    expect(html).toContain('aria-invalid="true"');
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json.version).toBe(1);
  });
});

describe("a former version", () => {
  beforeEach(published);

  it("is deprecated by dates, which the page shows", async () => {
    const browser = await signedIn();
    const dates = { version: "1", deprecated_at: "2026-01-02T03:04", sunset_at: "2027-01-02T03:04" };
    expect((await browser.post(PATH, { ...dates, action: "date" })).status).toBe(303);
    const { html } = await browser.get(PATH);
    expect(html).toContain("Deprecated");
    expect(html).toContain("for use until 2 Jan");
  });

  it.each([
    [
      "ends before it is deprecated",
      { version: "1", deprecated_at: "2026-01-02T03:04", sunset_at: "2025-01-02T03:04" },
    ],
    ["is the newest", { version: "2", deprecated_at: "2026-01-02T03:04" }],
    ["has a date that is none", { version: "1", deprecated_at: "tomorrow" }],
  ])("is refused when it %s", async (_, dates) => {
    const { status, html } = await (await signedIn()).post(PATH, { ...dates, action: "date" });
    expect(status).toBe(422);
    expect(html.split('id="dates"')[1]?.split('id="next"')[0]).toContain('aria-invalid="true"');
  });

  it("is not found under an unknown number", async () => {
    const { status } = await (await signedIn()).post(PATH, { version: "7", action: "date" });
    expect(status).toBe(422);
  });
});
