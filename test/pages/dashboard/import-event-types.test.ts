/** The page that imports event types from an OpenAPI document: what it would do to each, and doing it. */
import { beforeEach, expect, test } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { customer, signedIn } from "../../support/dashboard.ts";

const PATH = "/dashboard/event-types/import";
const { call } = testApi();
beforeEach(emptyDatabase);

const webhook = (schema: object, conversion?: string) => ({
  post: {
    ...(conversion && { "x-breakwater-conversion": conversion }),
    requestBody: { content: { "application/json": { schema } } },
  },
});
const documentOf = (...conversion: string[]) =>
  JSON.stringify({
    webhooks: { "order.paid": webhook({ type: "object", required: ["b"] }, ...conversion) },
  });

test("the page shows what an import would do to each type, or why it would be refused, and imports", async () => {
  await call("PUT", "/v1/event-types/order.paid", { schema: { type: "object" } });
  const version = { schema: { type: "object", required: ["a"] } };
  await call("PUT", "/v1/event-types/order.paid/versions/2", version);
  const browser = await signedIn();
  expect((await browser.get(PATH)).html).toContain("OpenAPI document");

  const refused = await browser.post(PATH, { document: documentOf(), action: "try" });
  expect([refused.status, refused.html]).toEqual([200, expect.stringContaining("1 type would be refused")]);
  expect(refused.html).toContain("/webhooks/order.paid/post/x-breakwater-conversion is missing");
  expect((await browser.post(PATH, { document: documentOf(), action: "import" })).status).toBe(422);

  const document = documentOf("{{ data | json }}");
  const tried = await browser.post(PATH, { document, action: "try" });
  expect(tried.html).toContain("Next version published");
  expect((await call("GET", "/v1/event-types/order.paid")).json.version).toBe(2);
  const { status, headers } = await browser.post(PATH, { document, action: "import", archive_others: "on" });
  expect([status, headers.get("location")]).toEqual([303, "/dashboard/event-types?done=types-imported"]);
  expect((await call("GET", "/v1/event-types/order.paid")).json.version).toBe(3);
  expect((await browser.post(PATH, { document, action: "try" })).html).toContain("Unchanged");
});

test("an invalid document is shown again with its fault", async () => {
  const { status, html } = await (await signedIn()).post(PATH, { document: "<b>", action: "try" });
  expect([status, html]).toEqual([422, expect.stringContaining("cannot be read as YAML or JSON")]);
  expect(html).toContain("&lt;b&gt;</textarea>");
});

test("a document of nearly a megabyte is read, however large its encoding is", async () => {
  const document = JSON.stringify({ webhooks: { "order.paid": { post: {} } }, info: '"'.repeat(480_000) });
  const { status, html } = await (await signedIn()).post(PATH, { document, action: "try" });
  expect([status, html]).toEqual([200, expect.stringContaining("Created")]);
});

test("the page is only for the operator", async () => {
  const browser = await customer("acme");
  expect((await browser.get(PATH)).status).toBe(403);
  expect((await browser.post(PATH, { document: documentOf(), action: "import" })).status).toBe(403);
});
