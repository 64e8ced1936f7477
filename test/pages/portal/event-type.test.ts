/** The page of an event type in the portal: its versions, and which one each endpoint of the visitor gets. */
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { visitor } from "../../support/portal.ts";

const TYPE = "order.paid";
const OTHER = "order.sent";
const PATH = `/portal/event-types/${TYPE}`;
const { call } = testApi();

beforeEach(async () => {
  await emptyDatabase();
  for (const type of [TYPE, OTHER]) {
    await call("PUT", `/v1/event-types/${type}`, { schema: { type: "object" }, example: { id: 1 } });
    const second = { schema: { type: "object", title: "Second" }, example: { id: 2 } };
    expect((await call("PUT", `/v1/event-types/${type}/versions/2`, second)).status).toBe(201);
  }
});

async function endpoint(tenant: string, description: string, event_versions: object = {}): Promise<string> {
  const body = { url: "https://example.com/hook", tenant, description, event_versions };
  const { status, json } = await call("POST", "/v1/destinations", body);
  expect(status).toBe(201);
  return json.id;
}

const pinsOf = async (id: string) => (await call("GET", `/v1/destinations/${id}`)).json.event_versions;

/** The version that is chosen for each endpoint of the page. */
const chosenIn = (html: string) =>
  [...html.matchAll(/aria-label="The version that (\w+) gets">.*?<option value="(\d)" selected/gs)].map(
    ([, name, version]) => [name, version],
  );

describe("the page of an event type", () => {
  it("shows its versions, and the visitor's own endpoints with the version that each gets", async () => {
    await endpoint("acme", "Old", { [TYPE]: 1 });
    await endpoint("acme", "New");
    await endpoint("globex", "Foreign", { [TYPE]: 1 });
    const browser = await visitor("acme");
    expect((await browser.get("/portal/event-types")).html).toContain(`href="${PATH}"`);
    const { status, html } = await browser.get(PATH);
    expect(status).toBe(200);
    expect([...html.matchAll(/<h2 id="version-(\d)"/g)].map(([, number]) => number)).toEqual(["2", "1"]);
    expect(chosenIn(html).toSorted()).toEqual([
      ["New", "2"],
      ["Old", "1"],
    ]);
    expect(html).not.toContain("Foreign");
  });

  it("moves an endpoint to another version, and leaves its other types as they are", async () => {
    const id = await endpoint("acme", "Old", { [TYPE]: 1, [OTHER]: 1 });
    const browser = await visitor("acme");
    const { status, headers } = await browser.post(PATH, { endpoint: id, version: "2" });
    expect([status, headers.get("location")]).toEqual([303, `${PATH}?done=saved`]);
    expect(await pinsOf(id)).toEqual({ [TYPE]: 2, [OTHER]: 1 });
    expect(chosenIn((await browser.get(PATH)).html)).toEqual([["Old", "2"]]);
  });

  it.each([
    ["3"],
    ["0"],
    ["1.5"],
    ["new"],
    [""],
  ])("refuses %j, which is not one of its versions", async (version) => {
    const id = await endpoint("acme", "Old", { [TYPE]: 1 });
    const { status } = await (await visitor("acme")).post(PATH, { endpoint: id, version });
    expect(status).toBe(422);
    expect(await pinsOf(id)).toEqual({ [TYPE]: 1 });
  });

  it("changes nothing of another tenant's endpoint", async () => {
    const id = await endpoint("globex", "Foreign", { [TYPE]: 1 });
    const browser = await visitor("acme");
    for (const endpoint of [id, `../${id}`, "", "dst_"])
      expect((await browser.post(PATH, { endpoint, version: "2" })).status).toBe(404);
    expect(await pinsOf(id)).toEqual({ [TYPE]: 1 });
  });

  it("has no form for visitors who may not change endpoints", async () => {
    const id = await endpoint("acme", "Old", { [TYPE]: 1 });
    const browser = await visitor("acme", { access: { may_edit_endpoints: false } });
    const { html } = await browser.get(PATH);
    expect(html).toContain("Version 1");
    expect(html).not.toContain('<select name="version"');
    expect((await browser.post(PATH, { endpoint: id, version: "2" })).status).toBe(403);
    expect(await pinsOf(id)).toEqual({ [TYPE]: 1 });
  });

  it("does not exist for an unknown type", async () => {
    expect((await (await visitor("acme")).get("/portal/event-types/none")).status).toBe(404);
  });
});
