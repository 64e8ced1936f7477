/** An import from Svix: its plan, its writes and its output, between two servers of Svix's API in this process. */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { newDestination } from "../../src/features/destinations/schema.ts";
import { eventType } from "../../src/features/parameters.ts";
import { createApp } from "../../src/http/app.ts";
import { documentOf } from "../../src/http/openapi/document.ts";
import { flagsIn, readFlags, UsageError } from "../../tools/flags.ts";
import { SvixApi } from "../../tools/import-svix/client.ts";
import {
  fitDescription,
  fitEventTypes,
  fitHeaders,
  fitMetadata,
  fitSecret,
  isEventType,
  uidOf,
} from "../../tools/import-svix/fit.ts";
import { importSvix } from "../../tools/import-svix/import.ts";
import { type ImportOptions, importHelp, importOptionsFrom } from "../../tools/import-svix/options.ts";
import { printable } from "../../tools/import-svix/printable.ts";
import { documentOut } from "../../tools/import-svix/shapes.ts";
import { FakeSvix, fakeApplication, fakeEndpoint, secretOf, TOKEN } from "../support/fake-svix.ts";

const FROM = "https://source.example";
const TO = "https://target.example";
const KEY = "bw_target-key-0123456789";

type Run = Readonly<{ code: number; printed: string; sleptMs: readonly number[]; report: () => Report }>;

type Entry = Readonly<{
  source_id: string;
  target_id: string | null;
  planned: string;
  outcome: string | null;
  reason: string | null;
  without_counterpart: readonly string[];
}>;
type Report = Readonly<{
  complete: boolean;
  event_types: readonly Entry[];
  applications: readonly (Entry & Readonly<{ endpoints: readonly Entry[] }>)[];
}>;

/** Imports with a clock of its own, which passes by sleeping alone. */
async function run(
  source: FakeSvix,
  target: FakeSvix,
  options: Partial<ImportOptions> = {},
  signal = new AbortController().signal,
): Promise<Run> {
  let now = 1_800_000_000_000;
  const sleptMs: number[] = [];
  const lines: string[] = [];
  const hands = {
    fetch: ((input: string, init: RequestInit) =>
      input.startsWith(FROM) ? source.fetch(input, init) : target.fetch(input, init)) as typeof fetch,
    sleep: async (ms: number) => {
      sleptMs.push(ms);
      now += ms;
    },
    now: () => now,
    random: () => 0.5,
  };
  const report = join(mkdtempSync(join(tmpdir(), "import-")), "report.json");
  const all: ImportOptions = {
    ...{ from: new URL(FROM), to: new URL(TO), token: TOKEN, key: KEY },
    ...{ apply: true, setHeaders: false, concurrency: 3, report },
    ...options,
  };
  const code = await importSvix(all, hands, signal, (line) => lines.push(line));
  const printed = lines.join("\n");
  return { code, printed, sleptMs, report: () => JSON.parse(readFileSync(report, "utf8")) };
}

function emptyTarget(): FakeSvix {
  const target = new FakeSvix();
  target.token = KEY;
  return target;
}

function sourceWith(...applications: FakeSvix["applications"]): FakeSvix {
  const source = new FakeSvix();
  source.applications = applications;
  return source;
}

/** Three applications with endpoints over several pages, and event types. */
function fullSource(): FakeSvix {
  const endpoints = ["a", "b", "c", "d", "e"].map((name) =>
    fakeEndpoint(`ep_${name}`, {
      uid: name === "a" ? "orders" : null,
      description: name,
      metadata: { team: name },
    }),
  );
  const source = sourceWith(
    fakeApplication(
      "app_1",
      { uid: "acme", name: "Acme", throttleRate: 7, metadata: { plan: "pro" } },
      endpoints,
    ),
    fakeApplication("app_2", { name: "No uid" }, [
      fakeEndpoint("ep_f", { disabled: true, eventTypes: ["a.b"] }),
    ]),
    fakeApplication("app_3", { name: "Empty" }),
  );
  source.eventTypes = [
    { name: "a.b", description: "A", schemas: { "1": { type: "object" } } },
    { name: "old", description: "", archived: true },
    { name: "c", description: "C" },
  ];
  return source;
}

const written = (target: FakeSvix) => target.requests.filter((request) => !request.startsWith("GET"));

describe("an import", () => {
  test("without --apply writes nothing, and shows how much it would", async () => {
    const target = emptyTarget();
    const { code, printed, report } = await run(fullSource(), target, { apply: false });
    expect(code).toBe(0);
    expect(written(target)).toEqual([]);
    expect(printed).toContain("event types   3 to create");
    expect(printed).toContain("applications  3 to create");
    expect(printed).toContain("endpoints     6 to create");
    expect(printed).toContain("Nothing has been written: --apply does it.");
    expect(report()).toMatchObject({ applied: false, complete: false });
  });

  test("copies all pages, with secrets to the byte, and uses the id of objects without a uid", async () => {
    const [source, target] = [fullSource(), emptyTarget()];
    const { code, report } = await run(source, target);
    expect(code).toBe(0);
    const [acme, second] = target.applications;
    expect(acme?.shown).toEqual({ uid: "acme", name: "Acme", throttleRate: 7, metadata: { plan: "pro" } });
    expect(second?.shown.uid).toBe("app_2");
    expect(acme?.endpoints.map(({ shown }) => shown.uid)).toEqual(["orders", "ep_b", "ep_c", "ep_d", "ep_e"]);
    expect(acme?.endpoints.map(({ secret }) => secret)).toEqual(
      source.applications[0]?.endpoints.map(({ secret }) => secret),
    );
    expect(second?.endpoints[0]?.shown).toMatchObject({ disabled: true, eventTypes: ["a.b"] });
    expect(target.eventTypes.find(({ name }) => name === "old")?.archived).toBe(true);
    const [first] = report().applications;
    expect(first).toMatchObject({ source_id: "app_1", target_id: acme?.id, outcome: "created" });
    expect(first?.endpoints.map(({ target_id: id }) => id)).toEqual(acme?.endpoints.map(({ id }) => id));
  });

  test("changes nothing when it is run again", async () => {
    const [source, target] = [fullSource(), emptyTarget()];
    await run(source, target);
    const before = structuredClone(target.applications);
    target.requests.length = 0;
    const { code, printed } = await run(source, target);
    expect(code).toBe(0);
    expect(written(target)).toEqual([]);
    expect(target.applications).toEqual(before);
    expect(printed).toContain("endpoints     6 as they are");
  });

  test("copies changes at the source, and leaves objects that only the target has", async () => {
    const [source, target] = [fullSource(), emptyTarget()];
    await run(source, target);
    target.applications[0]?.endpoints.push(fakeEndpoint("own", { uid: "own" }));
    target.applications.push(fakeApplication("others", { uid: "others" }));
    const [endpoint] = source.applications[0]?.endpoints ?? [];
    Object.assign(endpoint?.shown ?? {}, { url: "https://example.com/new", disabled: true });
    if (endpoint) endpoint.secret = secretOf("another");
    Object.assign(source.applications[1]?.shown ?? {}, { name: "Renamed" });
    const { printed } = await run(source, target);
    expect(printed).toContain("endpoint orders (ep_a) of acme: disabled, url, secret");
    expect(printed).toContain("application app_2: name");
    const [copy] = target.applications[0]?.endpoints ?? [];
    expect(copy).toMatchObject({
      secret: secretOf("another"),
      shown: { url: "https://example.com/new", disabled: true },
    });
    expect(target.applications[0]?.endpoints.at(-1)?.id).toBe("own");
    expect(target.applications.at(-1)?.id).toBe("others");
  });

  test("that ends at any request, before or after its effect, is completed by the next, without duplicates", async () => {
    const whole = emptyTarget();
    await run(fullSource(), whole, { concurrency: 1 });
    const count = whole.requests.length;
    const isComplete = (target: FakeSvix) =>
      expect(
        target.applications.map(({ shown, endpoints }) => [
          shown,
          endpoints.map((one) => [one.shown, one.secret]),
        ]),
      ).toEqual(
        whole.applications.map(({ shown, endpoints }) => [
          shown,
          endpoints.map((one) => [one.shown, one.secret]),
        ]),
      );
    for (let at = 1; at <= count; at += 1)
      for (const moment of ["before", "after"] as const) {
        const target = emptyTarget();
        let left = at;
        const inner = target.fetch;
        target.fetch = async (input, init) => {
          left -= 1;
          if (left > 0) return inner(input, init);
          if (left === 0 && moment === "after") await inner(input, init);
          throw new TypeError("fetch failed");
        };
        await expect(run(fullSource(), target, { concurrency: 1 })).rejects.toThrow(
          "Run the same command later",
        );
        target.fetch = inner;
        expect((await run(fullSource(), target, { concurrency: 1 })).code).toBe(0);
        isComplete(target);
      }
  });

  test("that is interrupted exits with 130, reports what it has written, and continues when it is run again", async () => {
    const [source, target, controller] = [fullSource(), emptyTarget(), new AbortController()];
    target.before = (request, path) => {
      if (request.method === "POST" && path.endsWith("/endpoint")) controller.abort();
      return undefined;
    };
    const { code, printed, report } = await run(source, target, { concurrency: 1 }, controller.signal);
    expect(code).toBe(130);
    expect(printed).toContain("endpoints     1 created, 0 changed, 0 left, 0 failed, 5 not written");
    expect(report().complete).toBe(false);
    expect(report().applications[0]?.endpoints.map(({ outcome }) => outcome)).toEqual([
      "created",
      null,
      null,
      null,
      null,
    ]);
    expect((await run(source, target)).code).toBe(0);
    expect(target.applications.flatMap(({ endpoints }) => endpoints)).toHaveLength(6);
  });

  test("whose report cannot be written reads and writes nothing", async () => {
    const [source, target] = [fullSource(), emptyTarget()];
    await expect(run(source, target, { report: "/nowhere/at/all.json" })).rejects.toThrow(
      "/nowhere/at/all.json",
    );
    expect([...source.requests, ...target.requests]).toEqual([]);
  });

  test("sets existing headers on request", async () => {
    const source = sourceWith(
      fakeApplication("app_1", {}, [fakeEndpoint("ep_a", {}, { headers: { "X-Key": "old" } })]),
    );
    const target = emptyTarget();
    await run(source, target);
    const [before, copy] = [source, target].map(({ applications }) => applications[0]?.endpoints[0]);
    Object.assign(before?.headers ?? {}, { "X-Key": "new", "X-More": "1" });
    await run(source, target);
    expect(copy?.headers).toEqual({ "X-Key": "old", "X-More": "1" });
    await run(source, target, { setHeaders: true });
    expect(copy?.headers).toEqual({ "X-Key": "new", "X-More": "1" });
  });

  test("continues past a refused endpoint, names it, and fails", async () => {
    const [source, target] = [fullSource(), emptyTarget()];
    target.before = async (request) => {
      const body = request.method === "POST" ? await request.clone().text() : "";
      if (!body.includes("/ep_b")) return undefined;
      const detail = [{ loc: ["body", "url"], msg: "is not encrypted; expected https", type: "value_error" }];
      return Response.json({ detail }, { status: 422 });
    };
    const { code, printed, report } = await run(source, target);
    expect(code).toBe(1);
    expect(printed).toContain(
      "endpoint ep_b of acme: POST /api/v1/app/made_1/endpoint answered 422: body.url: is not encrypted; expected https",
    );
    expect(report().complete).toBe(false);
    expect(target.applications.flatMap(({ endpoints }) => endpoints)).toHaveLength(5);
  });

  it.each([
    "secret",
    "headers",
    "transformation",
  ])("names the endpoint whose %s it could not read, and continues", async (detail) => {
    const source = fullSource();
    source.before = (_, path) =>
      path.endsWith(`/ep_c/${detail}`) ? Response.json({ detail: "broken" }, { status: 500 }) : undefined;
    const target = emptyTarget();
    const { code, printed } = await run(source, target);
    expect(code).toBe(1);
    expect(printed).toContain(
      `endpoint ep_c of application acme: GET /api/v1/app/app_1/endpoint/ep_c/${detail} answered 500: broken`,
    );
    expect(target.applications[0]?.endpoints).toHaveLength(4);
  });
});

describe("a part without a counterpart", () => {
  const only = async (...args: Parameters<typeof fakeEndpoint>) => {
    const target = emptyTarget();
    const source = sourceWith(fakeApplication("app_1", { uid: "acme" }, [fakeEndpoint(...args)]));
    const done = await run(source, target);
    return { ...done, source, target, entry: done.report().applications[0]?.endpoints[0] };
  };

  it.each([
    ["channels", { channels: ["project_1"] }, {}, "channels project_1"],
    ["only event types that are not allowed", { eventTypes: ["a..b"] }, {}, "a..b"],
    [
      "more event types than fit",
      { eventTypes: Array.from({ length: 101 }, (_, i) => `t${i}`) },
      {},
      "101 event types",
    ],
    ["a public key", {}, { secret: "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" }, "ed25519"],
    ["a short secret", {}, { secret: "whsec_c2hvcnQ=" }, "24 to 64 bytes"],
  ])("prevents the copy of an endpoint with %s", async (_what, shown, others, reason) => {
    const { code, entry, target, printed } = await only("ep_a", shown, others);
    expect(code).toBe(1);
    expect(target.applications[0]?.endpoints).toEqual([]);
    expect(entry).toMatchObject({
      planned: "refuse",
      target_id: null,
      reason: expect.stringContaining(reason),
    });
    expect(printed).toContain(reason);
  });

  it.each([
    ["headers that are not shown", { sensitive: ["Authorization"] }, "Authorization"],
    ["headers that are not allowed", { headers: { "X-Forwarded-For": "1.2.3.4" } }, "X-Forwarded-For"],
    [
      "a transformation",
      { extras: { transformation: { code: "function handler(webhook) {}", enabled: true } } },
      "transformation",
    ],
    ["OAuth", { extras: { "oauth-config": { enabled: true, config: {} } } }, "OAuth"],
    ["mutual TLS", { extras: { "mtls-config": { enabled: true } } }, "mutual TLS"],
  ])("makes an endpoint with %s be created disabled, and stay so", async (_what, others, note) => {
    const { code, entry, source, target } = await only("ep_a", {}, others);
    expect(code).toBe(0);
    const copy = target.applications[0]?.endpoints[0];
    expect(copy?.shown.disabled).toBe(true);
    expect(entry?.without_counterpart.join()).toContain(note);
    target.requests.length = 0;
    await run(source, target);
    expect(written(target)).toEqual([]);
    // Enabled by hand it is not disabled again.
    if (copy) copy.shown.disabled = false;
    await run(source, target);
    expect(copy?.shown.disabled).toBe(false);
  });

  test("is settled when a header is set at the target: the next run enables the endpoint", async () => {
    const { source, target } = await only("ep_a", {}, { sensitive: ["Authorization"] });
    const copy = target.applications[0]?.endpoints[0];
    copy?.sensitive.push("authorization");
    await run(source, target);
    expect(copy?.shown.disabled).toBe(false);
  });

  test("does not include disabled parts", async () => {
    const extras = { transformation: { code: null, enabled: false }, "oauth-config": { enabled: false } };
    const { entry, target } = await only("ep_a", {}, { extras });
    expect(entry?.without_counterpart).toEqual([]);
    expect(target.applications[0]?.endpoints[0]?.shown.disabled).toBe(false);
  });

  test("includes parts of fields, which are cut or left out", async () => {
    const { entry, target } = await only("ep_a", {
      url: "http://example.com",
      description: "d".repeat(600),
      throttleRate: 65_000,
      eventTypes: ["good", "bad."],
      metadata: { ok: "1", long: "x".repeat(501) },
    });
    expect(target.applications[0]?.endpoints[0]?.shown).toMatchObject({
      description: "d".repeat(500),
      throttleRate: 10_000,
      eventTypes: ["good"],
      metadata: { ok: "1" },
    });
    expect(entry?.without_counterpart).toHaveLength(5);
  });

  test("keeps each digit of numbers in schemas, and leaves them alone afterwards", async () => {
    const [source, target] = [new FakeSvix(), emptyTarget()];
    const schema = { type: "object", examples: [{ id: JSON.rawJSON("1187465291838226432") }] };
    source.eventTypes = [{ name: "a", description: "", schemas: { "1": schema } }];
    source.applications = [fakeApplication("app_1", { throttleRate: JSON.rawJSON("50.0") })];
    expect((await run(source, target)).code).toBe(0);
    expect(JSON.stringify(target.eventTypes[0]?.schemas)).toBe(JSON.stringify({ "1": schema }));
    expect(target.applications[0]?.shown).toMatchObject({ throttleRate: 50 });
    expect((await run(source, target)).report().event_types[0]?.planned).toBe("leave");
  });

  test("includes versions, flags and groups of event types, and schemas with unknown keywords", async () => {
    const source = sourceWith();
    source.eventTypes = [
      {
        name: "a",
        description: "",
        deprecated: true,
        groupName: "g",
        featureFlags: ["beta"],
        schemas: { "2": {}, "10": { type: "string" } },
      },
      { name: "b", description: "", schemas: { "1": { unevaluatedProperties: false } } },
      { name: "bad..name", description: "" },
    ];
    source.operationalWebhooks = [{ id: "ep_1" }];
    const target = emptyTarget();
    const { printed, code } = await run(source, target);
    expect(code).toBe(1);
    expect(target.eventTypes).toEqual([
      { name: "a", description: "", archived: false, schemas: { "1": { type: "string" } } },
      { name: "b", description: "", archived: false },
    ]);
    for (const part of [
      "deprecated",
      "groupName g",
      "feature flags beta",
      "schemas 2",
      "schema left out",
      "1 operational webhook",
    ])
      expect(printed).toContain(part);
    expect(printed).toContain("event type bad..name: its name is not allowed");
  });

  test("does not include channels if the target takes them", async () => {
    const target = emptyTarget();
    target.document = { components: { schemas: { NewDestination: { properties: { channels: {} } } } } };
    const source = sourceWith(
      fakeApplication("app_1", {}, [
        fakeEndpoint("ep_a", { channels: ["one", "t:wo"] }),
        fakeEndpoint("ep_b"),
      ]),
    );
    const { code, printed } = await run(source, target);
    expect(code).toBe(0);
    expect(target.applications[0]?.endpoints.map(({ shown }) => shown.channels)).toEqual([["one"], null]);
    expect(printed).toContain("channels t:wo");
    target.requests.length = 0;
    await run(source, target);
    expect(written(target)).toEqual([]);
  });

  test("includes channels unless the deployment's own document has them", () => {
    const { NewDestination } = documentOut.parse(documentOf(createApp())).components.schemas;
    expect(NewDestination.properties).toBeTypeOf("object");
    expect("channels" in NewDestination.properties).toBe("channels" in newDestination.shape);
  });

  test("includes an application or an endpoint whose name is taken", async () => {
    const source = sourceWith(
      fakeApplication("app_1", {}, [fakeEndpoint("ep_a"), fakeEndpoint("ep_b", { uid: "ep_a" })]),
      fakeApplication("app_2", { uid: "app_1" }, [fakeEndpoint("ep_c")]),
    );
    const target = emptyTarget();
    const { code, printed } = await run(source, target);
    expect(code).toBe(1);
    expect(target.applications).toHaveLength(1);
    expect(target.applications[0]?.endpoints).toHaveLength(1);
    expect(printed).toContain("another one at the source goes by app_1");
  });
});

describe("rates", () => {
  test("equal to the application's or the default are left out, and do not differ the next time", async () => {
    const source = sourceWith(
      fakeApplication("app_1", { throttleRate: 7 }, [
        fakeEndpoint("ep_a", { throttleRate: 7 }),
        fakeEndpoint("ep_b", { throttleRate: 9 }),
      ]),
      fakeApplication("app_2", {}, [fakeEndpoint("ep_c", { throttleRate: 100 })]),
    );
    const target = emptyTarget();
    await run(source, target);
    expect(
      target.applications.flatMap(({ endpoints }) => endpoints).map(({ shown }) => shown.throttleRate),
    ).toEqual([null, 9, null]);
  });
});

describe("a server that refuses for a while", () => {
  test("is given the time that it asks for, by all requests", async () => {
    const source = fullSource();
    let refusals = 3;
    source.before = () => {
      refusals -= 1;
      return refusals < 0
        ? undefined
        : new Response("slow down", { status: 429, headers: { "retry-after": "17" } });
    };
    const { code, sleptMs } = await run(source, emptyTarget());
    expect(code).toBe(0);
    expect(sleptMs.every((ms) => ms >= 17_000)).toBe(true);
    expect(sleptMs.length).toBeGreaterThanOrEqual(3);
  });

  test("gets no other request before the time that it has named", async () => {
    let now = 0;
    let asked = 0;
    const waiting: (() => void)[] = [];
    const hands = {
      fetch: async () => {
        asked += 1;
        return asked === 1
          ? new Response(null, { status: 429, headers: { "retry-after": "10" } })
          : Response.json({});
      },
      sleep: (ms: number) =>
        new Promise<void>((resolve) =>
          waiting.push(() => {
            now = Math.max(now, ms);
            resolve();
          }),
        ),
      now: () => now,
      random: () => 0,
    };
    const side = {
      name: "The source",
      url: new URL(FROM),
      token: TOKEN,
      credential: "--token",
      concurrency: 2,
    };
    const api = new SvixApi(side, hands, new AbortController().signal);
    const until = async (isSo: () => boolean) => {
      while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
    };
    const first = api.call("GET", "/first");
    await until(() => waiting.length === 1);
    const second = api.call("GET", "/second");
    await until(() => waiting.length === 2);
    expect(asked).toBe(1);
    for (const wake of waiting) wake();
    expect(await Promise.all([first, second])).toEqual([
      { ok: true, json: {} },
      { ok: true, json: {} },
    ]);
    expect(asked).toBe(3);
  });

  it.each([502, 503, 504])("with %d is retried later and later", async (status) => {
    const target = emptyTarget();
    let refusals = 4;
    target.before = () => (refusals-- > 0 ? new Response("<html>", { status }) : undefined);
    const { code, sleptMs } = await run(fullSource(), target);
    expect(code).toBe(0);
    expect(sleptMs).toEqual([750, 1_500, 3_000, 6_000]);
  });

  test("for longer than minutes ends the run", async () => {
    const source = fullSource();
    source.before = () => new Response(null, { status: 429, headers: { "retry-after": "3600" } });
    await expect(run(source, emptyTarget())).rejects.toThrow(
      /The source \(source.example\) does not take GET .* it answers 429/,
    );
    source.before = () => new Response(null, { status: 503 });
    await expect(run(source, emptyTarget())).rejects.toThrow("it answers 503. Run the same command later");
  });

  test("gets the same idempotency key when a creation is repeated", async () => {
    const target = emptyTarget();
    const keys: (string | null)[] = [];
    let isLost = false;
    target.before = (request, path) => {
      if (request.method !== "POST" || path !== "/api/v1/app") return undefined;
      keys.push(request.headers.get("idempotency-key"));
      if (isLost) return undefined;
      isLost = true;
      return new Response(null, { status: 502 });
    };
    expect((await run(sourceWith(fakeApplication("app_1")), target)).code).toBe(0);
    expect(keys[0]).toMatch(/^import-/);
    expect(keys[1]).toBe(keys[0]);
  });
});

describe("a server that is not a Svix API", () => {
  it.each<readonly [string, () => Response, RegExp]>([
    ["HTML", () => new Response("<html>sign in</html>"), /not JSON: is that its API's address/],
    [
      "a redirect",
      () => new Response(null, { status: 301, headers: { location: "https://other.example/" } }),
      /leads to https:\/\/other.example\//,
    ],
    ["a refused token", () => Response.json({ detail: TOKEN }, { status: 401 }), /refuses the --token/],
    [
      "no list",
      () => Response.json({ data: {} }),
      /cannot be listed: .*data is not as the API of Svix describes it/,
    ],
    ["null", () => Response.json(null), /cannot be listed/],
    [
      "a list without an end",
      () => Response.json({ data: [], iterator: "same", done: false }),
      /does not end/,
    ],
    [
      "a list without a next page",
      () => Response.json({ data: [], iterator: null, done: false }),
      /does not end/,
    ],
  ])("and answers %s ends the run with the fault, and writes nothing", async (_what, answer, expected) => {
    const source = fullSource();
    source.before = answer;
    const target = emptyTarget();
    const failure = await run(source, target).catch((error: Error) => error);
    expect(String(failure)).toMatch(expected);
    expect(String(failure)).not.toContain(TOKEN);
    expect(written(target)).toEqual([]);
  });

  test("has names that are not segments of a path: they are left out, and never called", async () => {
    const target = emptyTarget();
    const source = sourceWith(
      fakeApplication("..", {}, [fakeEndpoint("ep_a")]),
      fakeApplication("app_1", {}, [fakeEndpoint("ep_a/../../x"), fakeEndpoint("ep_b")]),
    );
    const { code, printed } = await run(source, target);
    expect(code).toBe(1);
    expect(printed).toContain("application ..: id is not as the API of Svix describes it");
    expect(target.applications.flatMap(({ endpoints }) => endpoints.map(({ shown }) => shown.uid))).toEqual([
      "ep_b",
    ]);
  });

  test("has texts with control characters: they are printed without effect", async () => {
    const evil = "\u001b[2J\u0007\u202egnp.exe\nFake: line";
    const source = sourceWith(
      fakeApplication("app_1", { metadata: { [evil]: "x".repeat(600) } }, [
        fakeEndpoint("ep_a", { eventTypes: [evil], metadata: JSON.parse('{"__proto__":"x"}') }),
      ]),
    );
    source.eventTypes = [{ name: evil, description: "" }];
    const { printed } = await run(source, emptyTarget());
    expect(printed).toContain("�[2J�gnp.exe�Fake: line");
    expect(printed.split("\n").some((line) => /[\p{Cc}\p{Cf}]/u.test(line))).toBe(false);
  });
});

test("neither token, nor key, nor secret, nor header is printed or written, however the target refuses them", async () => {
  const hidden = [TOKEN, KEY, secretOf("ep_a").slice(6), "s3cret-value"];
  const source = sourceWith(
    fakeApplication("app_1", {}, [fakeEndpoint("ep_a", {}, { headers: { "X-Key": "s3cret-value" } })]),
  );
  const target = emptyTarget();
  target.before = async (request) => {
    if (request.method !== "POST" || !request.url.endsWith("/endpoint")) return undefined;
    const body = (await request.clone().json()) as Record<string, unknown>;
    const detail = ["secret", "headers"].map((field) => ({
      loc: ["body", field],
      msg: `is ${JSON.stringify(body[field])}; expected another`,
      type: "value_error",
    }));
    return Response.json({ detail }, { status: 422 });
  };
  const { printed, report } = await run(source, target);
  expect(printed).toContain(
    "body.secret: is refused; expected another; body.headers: is refused; expected another",
  );
  for (const text of hidden) expect(printed + JSON.stringify(report())).not.toContain(text);
});

describe("the copied part", () => {
  const isTaken = (fields: object) =>
    newDestination.safeParse({ url: "https://example.com", ...fields }).success;
  const text = fc.oneof(fc.string({ maxLength: 140 }), fc.string({ unit: "binary", maxLength: 600 }));

  test("of metadata, descriptions, headers and event types is what the API accepts", () => {
    fc.assert(
      fc.property(
        fc.dictionary(text, text, { maxKeys: 60, noNullPrototype: true }),
        text,
        fc.array(text, { maxLength: 120 }),
        (map, one, list) => {
          expect(isTaken({ metadata: fitMetadata(map).value })).toBe(true);
          expect(isTaken({ headers: fitHeaders(map).value })).toBe(true);
          expect(isTaken({ description: fitDescription(one).value })).toBe(true);
          const types = fitEventTypes(list);
          if ("value" in types) expect(isTaken({ event_types: types.value })).toBe(true);
          expect(isEventType(one)).toBe(eventType.safeParse(one).success);
        },
      ),
      { examples: [[JSON.parse('{"__proto__":"x"}'), "", []]] },
    );
  });

  test("that is unchanged has no note", () => {
    fc.assert(
      fc.property(fc.dictionary(text, text, { maxKeys: 60, noNullPrototype: true }), (map) => {
        if (isTaken({ metadata: map })) expect(fitMetadata(map)).toEqual({ value: map, notes: [] });
      }),
    );
  });

  it.each([
    [secretOf("a"), { value: secretOf("a") }],
    [secretOf("a").slice(6), { value: secretOf("a") }],
    [
      `whsec_${Buffer.alloc(64, 1).toString("base64")}`,
      { value: `whsec_${Buffer.alloc(64, 1).toString("base64")}` },
    ],
    [`whsec_${Buffer.alloc(65, 1).toString("base64")}`, { refused: expect.any(String) }],
    [`${secretOf("a")}\n`, { refused: expect.any(String) }],
    ["", { refused: expect.any(String) }],
  ])("of the secret %j is %o", (given, expected) => expect(fitSecret(given)).toEqual(expected));

  test("of a printed text is one line without control characters", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 1_000 }), (given) => {
        expect(printable(given)).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
        expect([...printable(given)].length).toBeLessThanOrEqual(301);
      }),
    );
  });
});

describe("the command line", () => {
  const read = (...args: string[]) => importOptionsFrom(readFlags(args, flagsIn(importHelp)), {});
  const whole = [
    "--from",
    "https://s.example/api/v1/",
    "--token",
    "t",
    "--to",
    "https://b.example",
    "--key",
    "k",
  ];

  test("takes addresses with or without the API's path, and is a dry run by default", () => {
    const { from, to, apply, concurrency } = read(...whole);
    expect([from.href, to.href, apply, concurrency]).toEqual([
      "https://s.example/",
      "https://b.example/",
      false,
      4,
    ]);
    expect(read(...whole, "--from", "http://10.0.0.1:8071/svix").from.href).toBe(
      "http://10.0.0.1:8071/svix/",
    );
  });

  test("takes secrets from the environment", () => {
    const environment = { SVIX_TOKEN: "t", BREAKWATER_KEY: "k", BREAKWATER_URL: "https://b.example" };
    expect(
      importOptionsFrom(readFlags(["--from", "https://s.example"], flagsIn(importHelp)), environment),
    ).toMatchObject({
      token: "t",
      key: "k",
    });
  });

  it.each([
    [whole.slice(2), "--from is missing"],
    [whole.slice(0, 6), "--key is missing"],
    [[...whole, "--from", "s.example"], "--from is"],
    [[...whole, "--from", "https://user:pass@s.example"], "--from is"],
    [[...whole, "--to", "https://s.example"], "the same address"],
    [[...whole, "--token", "a\nb"], "--token has characters"],
    [[...whole, "--concurrency", "0"], "--concurrency is"],
    [[...whole, "--concurrency", "21"], "--concurrency is"],
    [[...whole, "--verbose"], "Unknown flag"],
  ])("refuses %j", (args, message) => {
    expect(() => read(...args)).toThrow(UsageError);
    expect(() => read(...args)).toThrow(message);
  });
});

test("a uid that no path can have gets the prefix that ids of another deployment get", () => {
  for (const uid of [".", ".."]) expect(uidOf({ id: "app_1", uid })).toBe(`former-${uid}`);
  expect(uidOf({ id: "app_1", uid: "a.b" })).toBe("a.b");
});
