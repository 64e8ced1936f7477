/** The import of an OpenAPI document: which types it creates, changes, publishes versions of, keeps and refuses. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";

const { call } = testApi();
const TYPE = "order.paid";
const first = { type: "object", required: ["id"], properties: { id: { type: "integer" } } };
const second = { type: "object", required: ["order"], properties: { order: first } };
const third = { type: "object", required: ["paid"], properties: { paid: second } };
const toFirst = '{"id": "{{ data.order.id }}"}';
const toSecond = "{{ data.paid | json }}";

beforeEach(emptyDatabase);

type Webhook = Readonly<{ schema?: unknown; example?: unknown; conversion?: unknown; description?: string }>;

const webhookOf = ({ schema, example, conversion, description }: Webhook) => ({
  post: {
    ...(description && { description }),
    ...(conversion !== undefined && { "x-breakwater-conversion": conversion }),
    ...(schema !== undefined && { requestBody: { content: { "application/json": { schema, example } } } }),
  },
});
const documentOf = (webhooks: Readonly<Record<string, Webhook>>) => ({
  openapi: "3.1.0",
  webhooks: Object.fromEntries(Object.entries(webhooks).map(([name, one]) => [name, webhookOf(one)])),
});
const send = (webhooks: Readonly<Record<string, Webhook>>, rest: object = {}, api = call) =>
  api("POST", "/v1/event-types/import", { document: documentOf(webhooks), ...rest });
const versions = async () => (await call("GET", `/v1/event-types/${TYPE}/versions`)).json.data;
const stored = async (name = TYPE) => (await call("GET", `/v1/event-types/${name}`)).json;
const step = (action: string, version: number | null, name = TYPE) => ({ name, action, version, errors: [] });

/** The type at version 2, published by hand. */
async function versioned(): Promise<void> {
  await call("PUT", `/v1/event-types/${TYPE}`, { schema: first, description: "" });
  const version = { schema: second, conversion: toFirst };
  expect((await call("PUT", `/v1/event-types/${TYPE}/versions/2`, version)).status).toBe(201);
}

describe("a changed schema", () => {
  it("with a conversion is published as the next version, and changes nothing when imported again", async () => {
    await send({ [TYPE]: { schema: first } });
    const document = { [TYPE]: { schema: second, example: { order: { id: 5 } }, conversion: toFirst } };
    const dry = await send(document, { dry_run: true });
    expect([dry.status, dry.json.types]).toEqual([200, [step("publish", 2)]]);
    expect(await versions()).toHaveLength(1);
    expect((await send(document)).json).toEqual(dry.json);
    expect(await versions()).toMatchObject([
      { version: 2, schema: second, example: { order: { id: 5 } }, conversion: toFirst },
      { version: 1, schema: first },
    ]);
    expect((await send(document)).json.types).toEqual([step("keep", 2)]);
    expect(await versions()).toHaveLength(2);
    const { json } = await call("GET", "/v1/audit");
    expect(json.data.map((one: { changes: unknown }) => one.changes)).toEqual([
      { version: { from: 1, to: 2 } },
      null,
    ]);
  });

  it("applies to events from then on, while existing endpoints stay at the version before", async () => {
    await send({ [TYPE]: { schema: first } });
    const endpoint = { url: "https://example.com/hook", tenant: "acme" };
    const old = (await call("POST", "/v1/destinations", endpoint)).json.id;
    const later = testApi({ services: { now: () => NOW + 60_000 } });
    await send({ [TYPE]: { schema: second, conversion: toFirst } }, {}, later.call);
    const fresh = (await later.call("POST", "/v1/destinations", endpoint)).json.id;
    const { json } = await call("GET", `/v1/event-types/${TYPE}/endpoints`);
    const gets = new Map(
      json.data.map((one: { destination_id: string; version: number }) => [one.destination_id, one.version]),
    );
    expect([gets.get(old), gets.get(fresh)]).toEqual([1, 2]);
  });

  it("replaces that of a type with one version if there is no conversion", async () => {
    await send({ [TYPE]: { schema: first } });
    expect((await send({ [TYPE]: { schema: second } })).json.types).toEqual([step("change", 1)]);
    expect(await stored()).toMatchObject({ version: 1, schema: second });
  });

  it("of a type with versions is refused without a conversion: with the webhook, the fault and the remedy", async () => {
    await versioned();
    const document = { [TYPE]: { schema: third }, "order.new": { schema: first } };
    const fault = `/webhooks/${TYPE}/post/x-breakwater-conversion is missing, and the schema is not that of version 2`;
    const dry = await send(document, { dry_run: true });
    expect(dry.json.types).toEqual([
      { ...step("refuse", 2), errors: [expect.stringMatching(`^${fault}; expected Liquid .* version 2`)] },
      step("create", 1, "order.new"),
    ]);
    const { status, json } = await send(document);
    expect([status, json.errors]).toMatchObject([422, [{ field: "document", fault }]]);
    expect((await stored("order.new")).status).toBe(404);
    expect(await stored()).toMatchObject({ version: 2, schema: second });
    const mended = { ...document, [TYPE]: { schema: third, conversion: toSecond } };
    expect((await send(mended)).json.types).toEqual([step("publish", 3), step("create", 1, "order.new")]);
    expect(await versions()).toMatchObject([{ version: 3 }, { version: 2, schema: second }, { version: 1 }]);
  });

  it("only in annotations, in the order of keys, or beside the schema is not another version", async () => {
    await versioned();
    const same = {
      properties: { order: { ...first, title: "An order" } },
      required: ["order"],
      type: "object",
      description: "Paid",
    };
    expect((await send({ [TYPE]: { schema: same, description: "An order is paid" } })).json.types).toEqual([
      step("change", 2),
    ]);
    expect(await stored()).toMatchObject({ version: 2, schema: same, description: "An order is paid" });
    const { description: _, ...rest } = same;
    const reordered = { description: "Paid", ...rest };
    expect(
      (await send({ [TYPE]: { schema: reordered, description: "An order is paid" } })).json.types,
    ).toEqual([step("keep", 2)]);
    expect((await send({ [TYPE]: { description: "An order is paid" } })).json.types).toEqual([
      step("keep", 2),
    ]);
  });

  it("is distinguished from a property with the name of an annotation", async () => {
    await versioned();
    const schema = { ...second, properties: { ...second.properties, title: { type: "string" } } };
    expect((await send({ [TYPE]: { schema } }, { dry_run: true })).json.types).toMatchObject([
      { action: "refuse" },
    ]);
  });

  it.each([
    ["is no Liquid", { schema: second, conversion: "{% nothing %}" }, /x-breakwater-conversion .*nothing/],
    [
      "makes something else of the example",
      { schema: second, example: { order: { id: 5 } }, conversion: '{"id": "x"}' },
      /x-breakwater-conversion makes of the example: .*; expected data of version 1/,
    ],
  ])("whose conversion %s is refused", async (_, webhook, fault) => {
    await send({ [TYPE]: { schema: first } });
    const { status, json } = await send({ [TYPE]: webhook });
    expect([
      status,
      json.errors[0].field,
      `${json.errors[0].fault}; expected ${json.errors[0].expected}`,
    ]).toEqual([422, "document", expect.stringMatching(fault)]);
    expect(await versions()).toHaveLength(1);
  });

  it.each([
    [7],
    [""],
    [{ id: 1 }],
    ["x".repeat(16_001)],
  ])("with the conversion %j is refused", async (conversion) => {
    const { status, json } = await send({ [TYPE]: { schema: first, conversion } });
    expect([status, json.errors[0].fault]).toEqual([
      422,
      expect.stringContaining("/x-breakwater-conversion is"),
    ]);
  });

  it("is refused beyond the versions that a type may have", async () => {
    const schema = (n: number) => ({ type: "object", required: [`v${n}`] });
    for (let n = 1; n <= 20; n++)
      await send({ [TYPE]: { schema: schema(n), conversion: "{{ data | json }}" } });
    expect(await stored()).toMatchObject({ version: 20 });
    const { status, json } = await send({ [TYPE]: { schema: schema(21), conversion: "{{ data | json }}" } });
    expect([status, json.errors[0].expected]).toEqual([422, "at most 20 versions of a type"]);
  });
});

test("a conversion of a new type, or of one with an unchanged schema, has no effect", async () => {
  const document = { [TYPE]: { schema: first, conversion: toFirst } };
  expect((await send(document)).json.types).toEqual([step("create", 1)]);
  expect((await send(document)).json.types).toEqual([step("keep", 1)]);
});

test("other types are archived on request, which a dry run shows", async () => {
  await call("PUT", "/v1/event-types/old", {});
  const rest = { archive_others: true };
  const steps = [step("create", 1), step("archive", null, "old")];
  expect((await send({ [TYPE]: {} }, { ...rest, dry_run: true })).json.types).toEqual(steps);
  expect((await send({ [TYPE]: {} }, rest)).json.types).toEqual(steps);
  expect((await send({ [TYPE]: {} }, rest)).json.types).toEqual([step("keep", 1)]);
  expect(await stored("old")).toMatchObject({ archived: true });
});

test("types of nearly the largest import replace as many others", async () => {
  const some = (text: string) =>
    Object.fromEntries(
      Array.from({ length: 62 }, (_, i) => [
        `x.${i}`,
        { schema: { type: "object", description: text.repeat(15_000) }, description: "" },
      ]),
    );
  expect((await send(some("a"))).status).toBe(200);
  expect((await send(some("b"))).json.types[0]).toEqual(step("change", 1, "x.0"));
});

test("a document may also be text, and is refused with its field", async () => {
  const yaml = `webhooks: {${TYPE}: {post: {}}}`;
  expect((await call("POST", "/v1/event-types/import", { document: yaml })).json.types).toEqual([
    step("create", 1),
  ]);
  for (const [body, field] of [
    [{ document: "a: [b" }, "document"],
    [{ document: 7 }, "document"],
    [{}, "document"],
    [{ document: yaml, dry_run: "yes" }, "dry_run"],
    [{ document: yaml, more: 1 }, "more"],
  ] as const)
    expect((await call("POST", "/v1/event-types/import", body)).json.errors[0].field).toBe(field);
});

test("a document keeps each digit of its schemas and examples, as an object and as text", async () => {
  const number = JSON.rawJSON("1187465291838226432");
  const webhook = {
    schema: { type: "object", examples: [{ id: number }] },
    example: { id: number, price: JSON.rawJSON("1.10") },
  };
  const document = documentOf({ [TYPE]: webhook });
  const example = "{id: +1187465291838226432, price: 1.10}";
  const media = `{schema: {type: object, examples: [{id: 1187465291838226432}]}, example: ${example}}`;
  const yaml = `webhooks: {${TYPE}: {post: {requestBody: {content: {application/json: ${media}}}}}}`;
  const send = async (given: unknown) =>
    (await call("POST", "/v1/event-types/import", { document: given })).json.types;
  for (const [given, action] of [
    [document, "create"],
    [JSON.stringify(document), "keep"],
    [yaml, "keep"],
    [yaml.replace("price: 1.10", "price: 1.1"), "change"],
    [yaml.replaceAll("1187465291838226432", "1187465291838226433"), "change"],
    [yaml, "change"],
  ] as const) {
    expect(await send(given)).toEqual([step(action, 1)]);
  }
  const { text } = await call("GET", `/v1/event-types/${TYPE}`);
  expect(text).toContain(JSON.stringify(webhook).slice(1, -1));
});

test("text that is only in part YAML is refused with its line, and replaces nothing", async () => {
  await call("PUT", "/v1/event-types/old", {});
  const whole = `webhooks:\n  ${TYPE}: {post: {}}\n`;
  for (const [rest, line] of [
    [`  ${TYPE}: {post: {}}\n`, 3],
    ["  order.sent: {post: {}\n", 4],
    [" order.sent:\n", 3],
    [`---\n${whole}`, "3: Another document begins; expected"],
  ] as const) {
    const { status, json } = await call("POST", "/v1/event-types/import", {
      document: whole + rest,
      archive_others: true,
    });
    expect([rest, status, json.detail]).toEqual([
      rest,
      422,
      expect.stringContaining(`document cannot be read as YAML or JSON, line ${line}`),
    ]);
  }
  expect(await stored("old")).toMatchObject({ archived: false });
});

describe("several isolates", () => {
  const document = {
    [TYPE]: { schema: second, conversion: toFirst },
    "order.sent": { schema: second, conversion: toFirst },
  };

  it("that import the same document at once publish one version of each type", async () => {
    await send({ [TYPE]: { schema: first }, "order.sent": { schema: first } });
    const apis = [0, -2_000, 2_000].map((skew) => testApi({ services: { now: () => NOW + skew } }));
    const answers = await Promise.all(apis.map((api) => send(document, {}, api.call)));
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
    for (const { status, json } of answers) expect([200, 409], JSON.stringify(json)).toContain(status);
    for (const api of apis)
      expect((await send(document, {}, api.call)).json.types).toEqual([
        step("keep", 2),
        step("keep", 2, "order.sent"),
      ]);
    expect(await versions()).toHaveLength(2);
  });

  it("take events of the new version at once, whatever they have cached", async () => {
    await call("PUT", `/v1/event-types/${TYPE}`, { schema: first, validate: true });
    const other = testApi();
    const post = (data: unknown) => other.call("POST", "/v1/events", { type: TYPE, data });
    expect((await post({ id: 1 })).status).toBe(202);
    await send(document);
    expect([(await post({ id: 1 })).status, (await post({ order: { id: 1 } })).status]).toEqual([422, 202]);
    const kept = await env.DB.prepare("SELECT validates FROM event_types WHERE name = ?").bind(TYPE).first();
    expect(kept).toEqual({ validates: 1 });
  });

  it("that lose the database within the transaction, or its answer, publish once when the import is repeated", async () => {
    await send({ [TYPE]: { schema: first }, "order.sent": { schema: first } });
    const broken = (batch: (list: D1PreparedStatement[]) => Promise<unknown>) =>
      testApi({
        services: {
          db: new Proxy(env.DB, {
            get: (db, key) => (key === "batch" ? batch : Reflect.get(db, key).bind(db)),
          }),
        },
      });
    for (let done = 0; done <= 4; done++) {
      const api = broken(async (list) => {
        await env.DB.batch([...list.slice(0, done), env.DB.prepare("SELECT json('{')")]).catch(() => {});
        throw new Error("D1_ERROR: Network connection lost.");
      });
      expect((await send(document, {}, api.call)).status).toBe(503);
      expect(await stored()).toMatchObject({ version: 1, schema: first });
    }
    const lost = broken(async (list) => {
      await env.DB.batch(list);
      throw new Error("D1_ERROR: Network connection lost.");
    });
    expect((await send(document, {}, lost.call)).status).toBe(503);
    expect((await send(document)).json.types).toMatchObject([{ action: "keep" }, { action: "keep" }]);
    expect(await versions()).toHaveLength(2);
  });
});
