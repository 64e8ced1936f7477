/** An NDJSON batch is handled like the same batch in JSON; its errors name lines. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { newEvent } from "../../../src/features/events/schema.ts";
import { countRows, emptyDatabase, testApi } from "../../support/api.ts";
import { meteredD1 } from "../../support/meter.ts";
import { document } from "../../support/operations.ts";
import { storedBodies } from "../../support/stored-bodies.ts";

const PATH = "/v1/events/batch";
const NDJSON = { "content-type": "application/x-ndjson" };
const KIB = 1024;

beforeEach(emptyDatabase);

type Api = ReturnType<typeof testApi>;
const post = ({ call }: Api, body: unknown, headers: object = {}) =>
  call("POST", PATH, body, { ...NDJSON, ...headers });
const lines = (events: readonly unknown[], end = "\n") =>
  events.map((event) => JSON.stringify(event) + end).join("");

describe("a batch of lines", () => {
  const events = ["b", "a", "c"].map((type, i) => ({ type, data: { i } }));

  it("is stored, planned and answered like the same batch in JSON", async () => {
    const api = testApi();
    await api.call("POST", "/v1/destinations", { url: "https://example.com/hook", event_types: ["a"] });
    const asJson = await api.call("POST", PATH, { events });
    const asLines = await post(api, lines(events));
    expect(asLines.status).toBe(202);
    const planned = ({ json }: { json: { events: { deliveries: unknown[] }[] } }) =>
      json.events.map(({ deliveries }) => deliveries.length);
    expect(planned(asLines as never)).toEqual(planned(asJson as never));
    const stored = await storedBodies();
    expect(stored.slice(3)).toEqual(stored.slice(0, 3));
    expect(api.messages).toHaveLength(2);
  });

  it.each([
    ["CRLF", lines(events, "\r\n")],
    ["no end after the last", lines(events).trimEnd()],
    ["blank lines", `\n \n${lines(events, "\n\t\r\n\n")}\n`],
    ["a byte order mark", `\ufeff${lines(events)}`],
    ["spaces around", lines(events).replaceAll(/^|$/gm, "  ")],
  ])("may have %s", async (_what, body) => {
    const { status, json } = await post(testApi(), body);
    expect([status, json.events?.length]).toEqual([202, 3]);
  });

  it("may arrive in pieces that end within lines and characters", async () => {
    const bytes = new TextEncoder().encode(
      lines([
        { type: "a", data: "é💥" },
        { type: "b", data: "日本" },
      ]),
    );
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    expect((await post(testApi(), stream)).status).toBe(202);
    expect((await storedBodies()).map((body) => JSON.parse(body).data)).toEqual(["é💥", "日本"]);
  });

  it("keeps the numbers in data as they are written", async () => {
    await post(testApi(), '{"type":"a","data":12345678901234567890}\n{"type":"a","data":1e400}');
    expect((await storedBodies()).map((body) => /"data":(.*)}$/.exec(body)?.[1])).toEqual([
      "12345678901234567890",
      "1e400",
    ]);
  });

  it("costs one round trip and one row for all of its events", async () => {
    const { db, used } = meteredD1(env.DB);
    const api = testApi({ services: { db } });
    await post(api, lines(events));
    used();
    await post(api, lines(events));
    expect(used()).toMatchObject({ roundTrips: 1, rowsWritten: 1 });
  });

  it("has a limit of a thousand events", async () => {
    const many = (count: number) => lines(Array.from({ length: count }, () => ({ type: "a", data: 1 })));
    expect((await post(testApi(), many(1000))).json.events).toHaveLength(1000);
    const { status, json } = await post(testApi(), many(1001));
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field: "body", fault: "has 1001 events", expected: "1 to 1000 events, each on a line of its own" },
    ]);
    expect(await countRows("events")).toBe(1000);
  });

  it.each([[""], ["\n\n"], [" \r\n"]])("of nothing, %j, is refused", async (body) => {
    const { status, json } = await post(testApi(), body);
    expect([status, json.errors]).toEqual([
      422,
      [expect.objectContaining({ field: "body", fault: "has no events" })],
    ]);
  });
});

describe("an error", () => {
  it("names its line, its field and the expectation", async () => {
    const body = [
      '{"type":"a","data":1}',
      "",
      '{"type":"a b","data":1}',
      '{"type":"a","x":1}',
      "3",
      '{"type":"a","data":1,"deliver_at":"soon"}',
    ];
    const { status, json } = await post(testApi(), body.join("\n"));
    expect(status).toBe(422);
    expect(json.detail).toMatch(/^line 3: type is "a b"; expected letters.*\(and 4 more\)$/);
    expect(json.errors).toEqual([
      { line: 3, field: "type", fault: 'is "a b"', expected: expect.stringContaining("letters") },
      { line: 4, field: "data", fault: "is missing", expected: "any JSON value" },
      { line: 4, field: "x", fault: "is not a known field", expected: expect.stringContaining("type, data") },
      {
        line: 5,
        field: "event",
        fault: "is 3",
        expected: expect.stringContaining("an object of type, data"),
      },
      { line: 6, field: "deliver_at", fault: 'is "soon"', expected: expect.stringContaining("ISO 8601") },
    ]);
    expect(await countRows("events")).toBe(0);
  });

  it("is listed for each line that is not JSON, and nothing is stored", async () => {
    const body = ['{"type":"a","data":1}', '{"type":', `{"type":"a","data":${"[".repeat(600)}`].join("\n");
    const { status, json } = await post(testApi(), body);
    expect(status).toBe(400);
    expect(json.errors).toEqual([
      {
        line: 2,
        field: "event",
        fault: expect.stringContaining("is not valid JSON"),
        expected: "a JSON object",
      },
      { line: 3, field: "event", fault: "is nested more than 500 levels deep", expected: "a JSON object" },
    ]);
    expect(json.detail).toContain("line 2: event is not valid JSON");
    expect(await countRows("events")).toBe(0);
  });

  it.each([
    ["a comma too many", '{"type":"a",}', 13, "Expected double-quoted property name"],
    ["a word", '{"type": x,"data":"x"}', 10, "Unexpected token 'x'"],
    ["something after it", '{"type":"a"} {}', 14, "Unexpected non-whitespace character after JSON"],
    ["an end too early", '{"type":"a"', 12, "Expected ',' or '}' after property value"],
    ["nothing after a colon", '{"type":', 9, "Unexpected end of JSON input"],
  ])("names the line and the column of %s once", async (_what, line, column, why) => {
    const { status, json } = await post(testApi(), `{"type":"a","data":1}\n\n${line}\n`);
    expect(status).toBe(400);
    expect(json.detail).toBe(
      `line 3: event is not valid JSON at column ${column}: ${why}; expected a JSON object`,
    );
    expect(json.errors).toEqual([
      {
        line: 3,
        field: "event",
        fault: `is not valid JSON at column ${column}: ${why}`,
        expected: "a JSON object",
      },
    ]);
  });

  it.each([
    ["a byte that begins nothing", [0xff], 21],
    ["a character cut short", [0xe6, 0x97, 0x22], 23],
    ["a surrogate", [0xed, 0xa0, 0x80], 22],
  ])("in the UTF-8 names the byte: %s", async (_what, bad, at) => {
    const head = new TextEncoder().encode('{"type":"a","data":1}\n{"type":"a","data":"');
    const tail = new TextEncoder().encode('"}\n');
    const { status, json } = await post(
      testApi(),
      new Response(Uint8Array.of(...head, ...bad, ...tail)).body,
    );
    expect(status).toBe(400);
    expect(json.errors).toEqual([expect.objectContaining({ line: 2, fault: `is not UTF-8 at byte ${at}` })]);
  });

  it("is listed up to a maximum, and the others are counted", async () => {
    const { json } = await post(testApi(), "{}\n".repeat(1000));
    expect(json.errors).toHaveLength(50);
    expect(json.detail).toContain("1999 more");
  });

  it("never quotes unparseable text, because it may contain a secret", async () => {
    const { text } = await post(testApi(), '{"type":"a","data":"whsec_abcdef\n');
    expect(text).not.toContain("whsec_");
  });

  it("of size names the line; a batch that is too large is refused at once", async () => {
    const long = { type: "a", data: "x".repeat(300 * KIB) };
    const answer = await post(testApi(), lines([{ type: "a", data: 1 }, long]));
    const size = JSON.stringify(long).length;
    expect(answer).toMatchObject({
      status: 413,
      json: { errors: [{ line: 2, field: "event", fault: `is ${size} bytes`, expected: "at most 262144" }] },
    });
    const full = lines(Array.from({ length: 5 }, () => ({ type: "a", data: "x".repeat(250 * KIB) })));
    expect((await post(testApi(), full)).status).toBe(413);
    expect(await countRows("events")).toBe(0);
  });

  it("in deliver_at names the line too", async () => {
    const { status, json } = await post(
      testApi(),
      `\n${lines([
        { type: "a", data: 1 },
        { type: "a", data: 1, deliver_at: "9999-01-01T00:00:00Z" },
      ])}`,
    );
    expect(status).toBe(422);
    expect(json.errors).toMatchObject([{ line: 3, field: "deliver_at", fault: "is too far ahead" }]);
  });

  it("of the content type names both accepted types", async () => {
    const { status, json } = await testApi().call("POST", PATH, "{}", { "content-type": "text/plain" });
    expect([status, json.detail]).toEqual([
      415,
      "Content-Type is text/plain; expected application/json or application/x-ndjson",
    ]);
  });
});

describe("a key", () => {
  const events = [1, 2].map((data) => ({ type: "a", data }));

  it("covers the same events as lines and as JSON", async () => {
    const api = testApi();
    const first = await post(api, lines(events), { "idempotency-key": "k" });
    const again = await post(api, lines(events, "\r\n\n"), { "idempotency-key": "k" });
    const asJson = await api.call("POST", PATH, { events }, { "idempotency-key": "k" });
    for (const { text, headers } of [again, asJson])
      expect([text, headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
    expect((await post(api, lines(events.slice(1)), { "idempotency-key": "k" })).status).toBe(409);
    expect(await countRows("events")).toBe(2);
  });

  it("that belongs to a tenant posts lines of that tenant only, all or none", async () => {
    const acme = testApi({ authenticate: async () => ({ scopes, tenant: "acme" }) });
    const foreign = await post(acme, lines([...events, { type: "a", data: 3, tenant: "rival" }]));
    expect(foreign.status).toBe(403);
    expect(await countRows("events")).toBe(0);
    expect((await post(acme, lines(events))).status).toBe(202);
    expect(await env.DB.prepare("SELECT DISTINCT tenant FROM events").first("tenant")).toBe("acme");
  });

  it("without the scope posts none", async () => {
    const reader = testApi({ authenticate: async () => ({ scopes: ["read"] }) });
    expect((await post(reader, lines(events))).status).toBe(403);
  });
});

it("the document's example of lines is accepted, line by line and as a whole", async () => {
  const media = document.paths[PATH]?.post?.requestBody?.content["application/x-ndjson"];
  const example = String(media?.example);
  for (const line of example.trimEnd().split("\n"))
    expect(newEvent.safeParse(JSON.parse(line)).success).toBe(true);
  expect((await post(testApi(), example)).status).toBe(202);
});
