/**
 * Transformations of deliveries before their gates are called: in which version, at which cost, and how failures are
 * reported.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import {
  type FunctionCall,
  type FunctionOutcome,
  functionUnavailable,
} from "../../src/core/transform/code.ts";
import type { TransformTemplate } from "../../src/core/transform/template.ts";
import { bodyOfText } from "../../src/delivery/http.ts";
import {
  faultFor,
  requestFor,
  transformed,
  tryTransform,
  withPayloads,
} from "../../src/delivery/transform.ts";
import { eventId } from "../../src/ids.ts";
import type { LogLine } from "../../src/log.ts";
import { newMemory } from "../../src/memory.ts";
import type { Services } from "../../src/services.ts";
import type { LoadedDelivery } from "../../src/store/deliveries.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { START, standingClock } from "../support/clock.ts";
import { testConfig } from "../support/config.ts";
import { DESTINATION, loadedDelivery } from "../support/loaded-delivery.ts";
import { insertDestinations, insertRows } from "../support/stored-deliveries.ts";

const by = { kind: "admin_key", key: null, session: null } as const;
const OTHER = "dst_00000000000000000002";

let db: D1Database;
let queries: string[];
let log: LogLine[];
/** The reports to the gate about deliveries that failed: the version and how many. */
let counted: unknown[][];
let background: Promise<unknown>[];
let functionCalls: FunctionCall[];
let outcome: (event: string) => FunctionOutcome;
let services: Services;

beforeEach(() => {
  const clock = standingClock();
  [queries, log, counted, background, functionCalls] = [[], [], [], [], []];
  db = memoryD1().bindingFor(async (sql, work) => {
    queries.push(sql);
    return work();
  });
  const gate = {
    countTransformFaults: async (...given: unknown[]) => {
      counted.push(given);
      return false;
    },
  };
  outcome = () => ({ kind: "made", made: { body: "made" } });
  const functions = {
    run: async (call: FunctionCall) => {
      functionCalls.push(call);
      return call.events.map((event) => outcome(event));
    },
  };
  const objects = (object: object) => ({ idFromName: (name: string) => name, get: () => object });
  services = {
    ...{
      config: testConfig(),
      now: clock.now,
      sleep: clock.sleep,
      random: () => 0.5,
      db,
      memory: newMemory(),
    },
    log: (line: LogLine) => log.push(line),
    background: (work: Promise<unknown>) => background.push(work),
    gates: objects(gate),
    functions: objects(functions),
  } as unknown as Services;
});

type Given = Parameters<typeof loadedDelivery>[0];
const saved = (own: object, version = 1, after = -1) => ({ version, after, at: 0, by, ...own });
const body = (data: unknown) =>
  bodyOfText(JSON.stringify({ type: "order.paid", timestamp: "2026-11-26", data }));

/** A delivery of an event with the data, whose destination has the template. */
function delivery(
  data: unknown,
  template: TransformTemplate | null,
  { event, ...others }: Given = {},
): LoadedDelivery {
  const destination = { transform: template && saved({ template }), ...others.destination };
  return loadedDelivery({ ...others, event: { body: body(data), ...event }, destination });
}

/** The result of each: the body that is sent, why there is none, or nothing if it is sent unchanged. */
async function made(...deliveries: LoadedDelivery[]) {
  const found = await transformed(services, deliveries);
  await Promise.all(background.splice(0));
  return found.map(({ transformed: result }) => {
    if (result?.kind === "request") return new TextDecoder().decode(result.body);
    return result?.kind === "fault" ? result.fault.fault : result?.kind;
  });
}

const text = (template: string): TransformTemplate => ({ body: template, content_type: "text/plain" });
const FAULTY: TransformTemplate = { body: "no json {{ data }}" };

describe("deliveries", () => {
  test("are transformed where they are open and have a body, and stay as they are elsewhere", async () => {
    const template = text("{{ type }} {{ data }} {{ tenant }} {{ id }} {{ timestamp }}");
    const all = [
      delivery(5, template),
      delivery(5, template, { event: { body: undefined } }),
      delivery(5, template, { event: { body: null } }),
      delivery(5, template, { row: { state: "delivered", endedAt: START } }),
      delivery(6, template, { row: { state: "retrying", endedAt: null } }),
      delivery(5, null),
    ];
    const whole = (data: number) => `order.paid ${data} acme ${eventId(128)} 2026-11-26`;
    expect(await made(...all)).toEqual([whole(5), undefined, undefined, undefined, whole(6), undefined]);
    const plain = [delivery(5, null), delivery(6, null)];
    expect(await transformed(services, plain)).toBe(plain);
    expect(queries).toEqual([]);
  });

  test("of content that is no envelope have it as their data, and those of bytes that are no text fail", async () => {
    const template = text("{{ data }} {{ timestamp }}");
    const contentType = "text/plain";
    const found = await made(
      delivery(0, template, { event: { body: bodyOfText("a text"), contentType, acceptedAt: 0 } }),
      delivery(0, template, { event: { body: new Uint8Array([255, 254]), contentType } }),
    );
    expect(found).toEqual(["a text 1970-01-01T00:00:00.000Z", "is content that is not UTF-8 text"]);
  });

  test("have a payload where they are sent as they are, and a body", async () => {
    const given = [
      delivery({ a: 1 }, null, { destination: { body: "data" } }),
      delivery(5, text("x")),
      delivery(5, null, { event: { body: undefined } }),
    ];
    const found = await withPayloads(services, given);
    expect(found.map(({ payload }) => payload && new TextDecoder().decode(payload.body))).toEqual([
      '{"a":1}',
      undefined,
      undefined,
    ]);
  });
});

/** An event's parts and destination, as pages have them. */
function pairOf({ event, destination }: LoadedDelivery) {
  return [{ ...event, body: event.body ?? new Uint8Array() }, destination] as const;
}

const textIn = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

describe("an event in a newer version of its type", () => {
  const PUBLISHED = START - 1_000;
  const version = { version: 2, since: PUBLISHED };
  /** A delivery of a destination that was created before the version, or of one that gets the newest. */
  function older(data: unknown, template: TransformTemplate | null = null, given: Given = {}) {
    const destination = { createdAt: PUBLISHED - 1, ...given.destination };
    return delivery(data, template, { ...given, event: { version, ...given.event }, destination });
  }
  const newest = (data: unknown, template: TransformTemplate | null = null, given: Given = {}) =>
    older(data, template, { ...given, destination: { createdAt: START, ...given.destination } });
  const dataOf = ({ event }: LoadedDelivery) => JSON.parse(textIn(event.body ?? new Uint8Array())).data;
  const pins = async () =>
    (await db.prepare("SELECT event_versions AS pins FROM destinations").bind().first<{ pins: unknown }>())
      ?.pins;

  async function publish(template: string) {
    const type = { type: "order.paid", schema: null, example: null };
    const conversions = JSON.stringify([{ template, at: 0, after: -1 }]);
    await insertRows(db, "event_type_versions", [
      { ...type, version: 1, published_at: 0, conversions: "[]" },
      { ...type, version: 2, published_at: PUBLISHED, conversions },
    ]);
    await insertDestinations(db, [{ id: DESTINATION }]);
  }

  test("is converted where the destination gets an older one, before its transformation", async () => {
    await publish('{"n": {{ data.order }} }');
    const all = [older({ order: 7 }), newest({ order: 7 }), older({ order: 7 }, text("{{ data.n }}"))];
    const found = await transformed(services, all);
    expect(found.map(dataOf)).toEqual([{ n: 7 }, { order: 7 }, { n: 7 }]);
    expect(found.map(({ transformed: made }) => made?.kind)).toEqual([undefined, undefined, "request"]);
    expect(await made(...all)).toEqual([undefined, undefined, "7"]);
  });

  test("that the conversion leaves out is cancelled", async () => {
    await publish("{% cancel %}");
    expect(await made(older(1), newest(1))).toEqual(["cancelled", undefined]);
  });

  test("whose conversion fails is reported without a version, and the destination is noted", async () => {
    await publish('{"n": {{ data }} }');
    const fault = "renders text that is not JSON";
    expect(await made(newest("no", FAULTY), older("no"), older(1))).toEqual([fault, fault, undefined]);
    expect(log).toMatchObject([{ version: 1, deliveries: 2 }]);
    expect([counted, await pins()]).toEqual([[[1, 2]], "[]"]);
    log.splice(0);
    await made(older("no"));
    expect(log).toMatchObject([
      { version: -1, fault: `conversion of order.paid from version 2 to 1, body: ${fault}`, deliveries: 1 },
    ]);
  });

  test.each([
    ["if only its transformation fails", newest("no", FAULTY)],
    ["if it has pins already", older("no", null, { destination: { eventVersions: [] } })],
  ])("leaves the destination as it is %s", async (_, given) => {
    await publish('{"n": {{ data }} }');
    expect(await made(given)).toEqual([expect.any(String)]);
    expect([counted.length, await pins()]).toEqual([1, null]);
  });

  test("is shown as it is sent, with its fault and headers", async () => {
    await publish('{"n": {{ data }} }');
    const headers = { "x-own": "1" };
    const sound = older(7, null, { event: { headers } });
    const shown = await requestFor(services, ...pairOf(sound));
    expect(shown).toMatchObject({ headers, payload: { contentType: "application/json" } });
    expect("payload" in shown && JSON.parse(textIn(shown.payload.body)).data).toEqual({ n: 7 });
    const field = "conversion of order.paid from version 2 to 1, body";
    expect(await faultFor(services, ...pairOf(sound))).toBeUndefined();
    expect(await faultFor(services, ...pairOf(older("no")))).toMatchObject({ field });
    expect(await requestFor(services, ...pairOf(older("no")))).toMatchObject({
      kind: "fault",
      fault: { field },
    });
  });
});

describe("the request of an event", () => {
  test("is its own where there is no transformation, and else has the parts that this makes", async () => {
    const event = { headers: { "X-Own": "event", "x-type": "event" } };
    const plain = await requestFor(services, ...pairOf(delivery(1, null, { event })));
    expect(plain).toEqual({
      payload: { body: body(1), contentType: "application/json" },
      headers: event.headers,
    });
    const template = { headers: { "x-type": "{{ type }}" }, method: "PUT", path: "/{{ data }}" } as const;
    const made = await requestFor(services, ...pairOf(delivery(1, template, { event })));
    expect(made).toEqual({
      payload: { body: body(1), contentType: "application/json" },
      headers: { "x-own": "event", "x-type": "order.paid" },
      way: { method: "PUT", path: "/1", query: "" },
    });
  });

  test("has a fault where what is stored is no transformation", async () => {
    const transform = { version: 1 } as LoadedDelivery["destination"]["transform"];
    const fault = { field: "transform", fault: "what is stored cannot be read; save it again" };
    const edited = delivery(1, null, { destination: { transform } });
    expect(await requestFor(services, ...pairOf(edited))).toEqual({ kind: "fault", fault });
    expect(await made(edited)).toEqual([fault.fault]);
  });

  test("has a fault where its content is no text", async () => {
    const event = { body: new Uint8Array([255]) as Uint8Array<ArrayBuffer>, contentType: "text/plain" };
    const fault = { field: "data", fault: "is content that is not UTF-8 text" };
    expect(await faultFor(services, ...pairOf(delivery(1, text("{{ data }}"), { event })))).toEqual(fault);
  });

  test("may be left out", async () => {
    const left = delivery(1, text("{% cancel %}"));
    expect(await requestFor(services, ...pairOf(left))).toEqual({ kind: "cancelled" });
    expect(await faultFor(services, ...pairOf(left))).toBeUndefined();
  });
});

test("a draft makes requests of several events, and so do the saved versions", async () => {
  const events = [delivery(1, null), delivery("no", null), delivery(3, null)].map((one) => pairOf(one)[0]);
  const { destination } = delivery(0, { body: "[{{ data }}]" });
  const bodies = async (...draft: Parameters<typeof saved>[0][]) => {
    const versions = draft.map((own) => saved(own, 2));
    const found = await tryTransform(services, events, destination, versions[0]);
    return found.map((one) => (one?.kind === "request" ? textIn(one.body) : one?.kind));
  };
  expect(await bodies()).toEqual(["[1]", "fault", "[3]"]);
  expect(await bodies({ template: { body: '{"n":"{{ data }}"}' } })).toEqual([
    '{"n":1}',
    '{"n":"no"}',
    '{"n":3}',
  ]);
  expect(await bodies({ template: null })).toEqual([undefined, undefined, undefined]);
});

describe("a version that fails", () => {
  const transform = saved({ template: text("current") }, 3, 5);
  /** An event of a bundle from before the current version. */
  const older = (bundle: number) =>
    delivery(1, null, { event: { id: bundle * 128 }, destination: { transform } });
  const former = (version: number, template: TransformTemplate, after: number) => ({
    ...{ destination_id: DESTINATION, version },
    transform: JSON.stringify(saved({ template }, version, after)),
  });
  const reads = () => queries.filter((sql) => /from "transforms"/.test(sql)).length;

  test("gives way to the next newer one, and an event from before the first is sent as it is", async () => {
    await insertRows(db, "transforms", [former(1, FAULTY, 2), former(2, text("second"), 4)]);
    expect(await made(older(2), older(3), older(5), older(6))).toEqual([
      undefined,
      "second",
      "second",
      "current",
    ]);
  });

  test("is read once for a batch, and not again while there is no newer one", async () => {
    await insertRows(db, "transforms", [former(1, text("first"), -1)]);
    expect(await made(older(1), older(2))).toEqual(["first", "first"]);
    expect(await made(older(1))).toEqual(["first"]);
    expect(reads()).toBe(1);
    expect(
      await made(delivery(1, null, { destination: { transform: { ...transform, version: 4 } } })),
    ).toEqual(["first"]);
    expect(reads()).toBe(2);
  });

  test.each([
    [0, 1],
    [1, 2],
  ])("is not kept in memory where all of them are long: %d characters beyond the most", async (beyond, times) => {
    const versions = (...lengths: number[]) =>
      lengths.map((length, i) => former(10 + i, text("x".repeat(length)), -1));
    const full = Array<number>(12).fill(16_000);
    const shortest = `[${versions(...full, 0).map((one) => one.transform)}]`.length;
    await insertRows(db, "transforms", versions(...full, 200_000 - shortest + beyond));
    await made(older(1), older(2));
    await made(older(1));
    expect(reads()).toBe(times);
  });

  test("is reported once for all of its deliveries, of each destination", async () => {
    const other = { id: OTHER };
    await made(
      delivery(1, FAULTY, { event: { id: 130 } }),
      delivery(1, text("sound")),
      delivery(1, FAULTY, { event: { id: 131 } }),
      delivery(1, FAULTY, { event: { id: 132 }, row: { state: "waiting", reason: "transform_failed" } }),
      delivery(1, FAULTY, { event: { id: 133 }, row: { state: "waiting", reason: "paused" } }),
      delivery(1, FAULTY, { destination: other }),
    );
    const line = { what: "transform_failed", version: 1, fault: "body: renders text that is not JSON" };
    expect(log).toEqual([
      { ...line, destination: DESTINATION, event: eventId(130), deliveries: 3 },
      { ...line, destination: OTHER, event: eventId(128), deliveries: 1 },
    ]);
    expect(counted).toEqual([
      [1, 3],
      [1, 1],
    ]);
    log.splice(0);
    await made(delivery(1, FAULTY, { row: { state: "waiting", reason: "transform_failed" } }));
    expect([log, counted.length]).toEqual([[], 2]);
  });
});

describe("a version in code", () => {
  const coded = (data: unknown, given: Given = {}) =>
    delivery(data, null, {
      ...given,
      destination: { transform: saved({ code: "code" }), ...given.destination },
    });
  const stored = async () =>
    (await db.prepare("SELECT event_id AS event, made, fault FROM transform_results ORDER BY 1").bind().all())
      .results;
  const failed = { kind: "fault", fault: { field: "code", fault: "throws" }, stopped: false } as const;
  beforeEach(() => insertBundles(db, [{ id: 1, events: [{}, {}, {}] }]));

  test("runs once for the events of a destination, and what it has made is stored", async () => {
    outcome = (event) => ({
      kind: "made",
      made: { body: `of ${(JSON.parse(event) as { data: number }).data}` },
    });
    const all = [coded(1), coded(2, { event: { id: 129 } })];
    expect(await made(...all)).toEqual(["of 1", "of 2"]);
    expect(functionCalls).toMatchObject([
      { tenant: "acme", code: "code", events: [{}, {}].map(() => expect.any(String)) },
    ]);
    expect(await stored()).toEqual([
      { event: 128, made: '{"body":"of 1"}', fault: null },
      { event: 129, made: '{"body":"of 2"}', fault: null },
    ]);
    outcome = () => failed;
    expect(await made(...all)).toEqual(["of 1", "of 2"]);
    expect(functionCalls).toHaveLength(1);
  });

  test("that fails is counted the first time, and does not run again for the event", async () => {
    outcome = () => failed;
    const row = { state: "waiting", reason: "transform_failed" } as const;
    expect(await made(coded(1, { row }))).toEqual(["throws"]);
    expect(counted).toEqual([[1, 1]]);
    expect(await made(coded(1, { row }))).toEqual(["throws"]);
    expect([counted.length, functionCalls.length, log.length]).toEqual([1, 1, 1]);
  });

  test("that was ended from outside runs again, and is counted once", async () => {
    const row = { state: "waiting", reason: "transform_failed" } as const;
    outcome = () => ({ ...failed, stopped: true });
    await made(coded(1));
    expect(await made(coded(1, { row }))).toEqual(["throws"]);
    expect([counted, functionCalls.length]).toEqual([[[1, 1]], 2]);
    outcome = () => ({ kind: "made", made: { body: "late" } });
    expect(await made(coded(1))).toEqual(["late"]);
  });

  describe("before another one", () => {
    /** A delivery from before the second version. */
    const older = (second: object) =>
      coded(1, {
        destination: { transform: saved(second, 2, 5) as LoadedDelivery["destination"]["transform"] },
      });
    const codes = () => functionCalls.map(({ code }) => code);
    const former = () =>
      insertRows(db, "transforms", [
        { destination_id: DESTINATION, version: 1, transform: JSON.stringify(saved({ code: "code" })) },
      ]);

    test.each([
      ["a template", text("second"), "second"],
      ["none", null, undefined],
    ])("that has failed gives way to %s, and does not run again", async (_, template, result) => {
      outcome = () => failed;
      await made(coded(1));
      await former();
      expect(await made(older({ template }))).toEqual([result]);
      expect(codes()).toEqual(["code"]);
    });

    test("does not run again where the other one was ended from outside", async () => {
      outcome = () => ({ ...failed, stopped: true });
      await former();
      await made(older({ code: "second" }));
      expect(codes()).toEqual(["code", "second"]);
      outcome = () => ({ kind: "made", made: { body: "late" } });
      expect(await made(older({ code: "second" }))).toEqual(["late"]);
      expect(codes()).toEqual(["code", "second", "second"]);
    });

    test("does not give way to it where it cannot run", async () => {
      outcome = () => functionUnavailable("is away");
      await former();
      expect(await made(older({ template: text("second") }))).toEqual(["is away"]);
      expect(codes()).toEqual(["code"]);
    });
  });

  test("runs apart from that of another destination", async () => {
    const other = { id: OTHER, transform: saved({ code: "other" }) };
    outcome = () => ({ kind: "made", made: { body: "made" } });
    expect(await made(coded(1), coded(2, { destination: other }))).toEqual(["made", "made"]);
    expect(functionCalls.map(({ code, events }) => [code, events.length])).toEqual([
      ["code", 1],
      ["other", 1],
    ]);
  });

  test("does not run where the deployment runs none, whatever the operator has switched off", async () => {
    services = { ...services, functions: undefined };
    expect(await made(coded(1))).toEqual(["is not run by this deployment"]);
    expect(queries.filter((sql) => /tenant_settings/.test(sql))).toEqual([]);
  });

  test("gives way to what another isolate has stored of it first", async () => {
    await made(coded(1, { event: { id: 130 } }));
    const result = { version: 1, destination_id: DESTINATION, made: '{"body":"theirs"}' };
    const run = async (call: FunctionCall) => {
      await insertRows(db, "transform_results", [{ event_id: 128, ...result }]);
      return call.events.map(() => ({ kind: "made", made: { body: "ours" } }));
    };
    const functions = { idFromName: (name: string) => name, get: () => ({ run }) };
    services = { ...services, functions: functions as unknown as Services["functions"] };
    const all = [128, 129, 130].map((id) => coded(1, { event: { id } }));
    expect(await made(...all)).toEqual(["theirs", "ours", "made"]);
  });

  test("is shown as it was sent, and runs for a try, whose result is not stored", async () => {
    const fault = { field: "code", fault: "has not run for this event yet" };
    expect(await requestFor(services, ...pairOf(coded(1)))).toEqual({ kind: "fault", fault, passing: true });
    expect(functionCalls).toEqual([]);
    outcome = () => ({ kind: "made", made: { body: "tried" } });
    const tried = await requestFor(services, ...pairOf(coded(1)), "try");
    expect("payload" in tried && textIn(tried.payload.body)).toBe("tried");
    expect(await stored()).toEqual([]);
    outcome = () => ({ kind: "made", made: { body: "sent" } });
    await made(coded(1));
    for (const purpose of ["show", "try"] as const) {
      const shown = await requestFor(services, ...pairOf(coded(1)), purpose);
      expect("payload" in shown && textIn(shown.payload.body)).toBe("sent");
    }
    expect(functionCalls).toHaveLength(2);
  });

  test("that has failed is shown with its fault, also where it will run again", async () => {
    for (const [id, stopped] of [
      [128, false],
      [129, true],
    ] as const) {
      outcome = () => ({ ...failed, stopped });
      await made(coded(1, { event: { id } }));
      expect(await faultFor(services, ...pairOf(coded(1, { event: { id } })))).toEqual(failed.fault);
    }
    expect(functionCalls).toHaveLength(2);
  });

  test("is called for each version by itself", async () => {
    const transform = saved({ code: "second" }, 2, 5) as LoadedDelivery["destination"]["transform"];
    await insertRows(db, "transforms", [
      { destination_id: DESTINATION, version: 1, transform: JSON.stringify(saved({ code: "first" })) },
    ]);
    await insertBundles(db, [{ id: 6, events: [{}] }]);
    const all = [1, 6].map((bundle) =>
      coded(bundle, { event: { id: bundle * 128 }, destination: { transform } }),
    );
    await made(...all);
    expect(functionCalls.map(({ code, events }) => [code, events.length])).toEqual([
      ["first", 1],
      ["second", 1],
    ]);
  });

  test("does not run once the operator has switched the tenant's functions off", async () => {
    await insertRows(db, "tenant_settings", [
      { tenant: "acme", functions_off: 1, created_at: 0, updated_at: 0 },
    ]);
    const fault = "is not run: the operator has switched the tenant's functions off";
    expect(await made(coded(1), coded(2, { event: { id: 129 } }))).toEqual([fault, fault]);
    expect([functionCalls, await stored()]).toEqual([[], []]);
  });

  test("whose results are too much to be loaded at once waits for those", async () => {
    const large = JSON.stringify({ body: "x".repeat(8_000_000) });
    await insertRows(db, "transform_results", [
      { event_id: 128, destination_id: DESTINATION, version: 1, made: large },
    ]);
    const fault = { field: "code", fault: "has produced more than can be loaded at once" };
    expect(await requestFor(services, ...pairOf(coded(1)))).toEqual({ kind: "fault", fault, passing: true });
    await transformed(services, [coded(1)]);
    expect([functionCalls, counted, background.length]).toEqual([[], [], 0]);
  });

  test("that cannot run is reported, and neither counted nor stored, beside one that fails", async () => {
    outcome = (event) =>
      (JSON.parse(event) as { data: number }).data === 1 ? functionUnavailable("is away") : failed;
    expect(await made(coded(1), coded(2, { event: { id: 129 } }))).toEqual(["is away", "throws"]);
    expect(log).toMatchObject([{ what: "transform_failed", fault: "code: is away", deliveries: 2 }]);
    expect([counted, await stored()]).toMatchObject([[[1, 1]], [{ event: 129 }]]);
  });

  test("that cannot run is reported, and neither counted nor stored", async () => {
    outcome = () => functionUnavailable("is away");
    expect(await made(coded(1))).toEqual(["is away"]);
    expect(log).toMatchObject([{ what: "transform_failed", deliveries: 1 }]);
    expect([counted, await stored()]).toEqual([[], []]);
  });

  test("does not run for content that is no text", async () => {
    const event = { body: new Uint8Array([255, 254]), contentType: "text/plain" };
    expect(await made(coded(1, { event }))).toEqual(["is content that is not UTF-8 text"]);
    expect(functionCalls).toEqual([]);
  });
});
