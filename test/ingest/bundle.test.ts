/** Which entries are committed together, how they are stored, their destinations, and their faults. */
import { describe, expect, test } from "vitest";
import { headersOf, MAX_BYTES } from "../../src/core/bundle.ts";
import type { JsonSchema } from "../../src/core/json-schema.ts";
import type { Route } from "../../src/core/routing.ts";
import {
  type Draft,
  draftOf,
  draftsApart,
  draftsOf,
  type Entry,
  type EventOptions,
  entryBytes,
  eventFaultsOf,
  filterEntries,
  keyTenantOf,
  type PostedEvent,
  postedEvent,
  routedBy,
  routeOf,
  unitOf,
} from "../../src/ingest/bundle.ts";
import { CATALOGUE, type Routes } from "../../src/ingest/routing-cache.ts";
import { readContents } from "../../src/store/bundles.ts";

const encoder = new TextEncoder();

const event = (type: string, also: Partial<PostedEvent> = {}, data: unknown = {}): PostedEvent => ({
  ...postedEvent({ tenant: "acme", type, data }),
  ...also,
});

const optioned = (options: EventOptions, also: Partial<PostedEvent> = {}) => event("a", { options, ...also });

function entry(
  token: string,
  events: readonly PostedEvent[] = [event("a")],
  also: Partial<Entry> = {},
): Entry {
  return { token, events, deadlineAt: 0, ...also };
}

const keyed = (token: string, ...events: PostedEvent[]) =>
  entry(token, events.length > 0 ? events : undefined, {
    key: { key: `key of ${token}`, fingerprint: token },
  });

const tokensOf = (drafts: readonly Draft[]) =>
  drafts.map(({ entries }) => entries.map(({ token }) => token).join(" "));

const LATER = 1_000;
/** Two are for now, two for later. */
const fourEvents = ["a", "b", "c", "d"].map((type, i) =>
  event(type, i % 2 === 1 ? { deliverAt: LATER } : {}),
);
const mixed = [
  entry("one"),
  entry("list", [event("a"), event("b")]),
  keyed("keyed one"),
  entry("two"),
  keyed("keyed two"),
  keyed("keyed list", event("a"), event("b")),
];

describe("drafts", () => {
  test("are shared by single events, with and without keys separately; each list has its own", () => {
    expect(tokensOf(draftsOf(mixed))).toEqual(["one two", "keyed one keyed two", "list", "keyed list"]);
    expect(tokensOf(draftsOf([entry("list", [event("a"), event("b")])]))).toEqual(["list"]);
    expect(draftsOf([])).toEqual([]);
  });

  test("are one for each key after a miss", () => {
    expect(tokensOf(draftsApart(mixed))).toEqual(["one two", "list", "keyed one", "keyed two", "keyed list"]);
  });

  test("keep only the wanted entries, and are dropped without any", () => {
    const drafts = draftsOf(mixed);
    const wanted = filterEntries(drafts, ({ token }) => ["two", "list"].includes(token));
    expect(tokensOf(wanted)).toEqual(["two", "list"]);
    expect(wanted[0]?.bundles).toEqual(draftOf([mixed[3] as Entry]).bundles);
    expect(wanted[1]).toBe(drafts[2]);
  });

  test("of single events have a token for each, in the order of the bundle", () => {
    const entries = ["x", "y", "z"].map((token) => entry(token));
    const { bundles } = draftOf(entries);
    expect(bundles.map(({ tokens }) => tokens)).toEqual([["x", "y", "z"]]);
    expect(bundles[0]?.items.map((item) => [item.entry.token, item.place])).toEqual([
      ["x", 0],
      ["y", 0],
      ["z", 0],
    ]);
  });

  test("of a list have one for each bundle, and each event its place in the list", () => {
    const { bundles } = draftOf([entry("list", fourEvents)]);
    expect(bundles.map(({ tokens }) => tokens)).toEqual([["list.0"], ["list.1"]]);
    expect(bundles.map(({ items }) => items.map(({ place, event: { type } }) => [place, type]))).toEqual([
      [
        [0, "a"],
        [2, "c"],
      ],
      [
        [1, "b"],
        [3, "d"],
      ],
    ]);
  });

  test("have bundles of limited size, including the headers stored behind the bodies", () => {
    const body = new Uint8Array(MAX_BYTES / 2);
    const plain = event("a", { body });
    const headed = optioned({ headers: { "x-a": "1" } }, { body });
    expect(entryBytes(entry("x", [plain, headed, plain]))).toBe(1.5 * MAX_BYTES + 11);
    expect([plain, headed].map((one) => entryBytes(entry("x", [one])))).toEqual([
      MAX_BYTES / 2,
      MAX_BYTES / 2 + 11,
    ]);
    expect(draftOf([entry("list", [plain, plain])]).bundles).toHaveLength(1);
    expect(draftOf([entry("list", [plain, headed])]).bundles).toHaveLength(2);
  });
});

const route = (destination: string, also: Partial<Route> = {}): Route => ({
  ...{ destination, types: null, channels: null, filter: null },
  ...also,
});

const routesOf = (
  of: Readonly<Record<string, readonly Route[]>>,
  catalogue: Partial<Routes> = {},
): ReadonlyMap<string, Routes> =>
  new Map([
    ...Object.entries(of).map(([tenant, routes], i) => [tenant, { revision: i + 3, routes }] as const),
    [CATALOGUE, { revision: 0, routes: [], ...catalogue }],
  ]);

describe("the stored bundle", () => {
  const unit = (entries: readonly Entry[], database = 0, routes = routesOf({ acme: [], other: [] })) =>
    unitOf(draftOf(entries), database, routes, 0);

  test("depends on the revisions of its tenants, and for repeatable entries in a further database, on their having none", async () => {
    const entries = [entry("x"), entry("y", [event("a", { tenant: "new" })]), entry("z")];
    expect((await unit(entries)).revisions).toEqual({ acme: 3, new: 0 });
    expect((await unit(entries, 1)).revisions).toEqual({});
    const keyed = entry("k", [event("a")], { key: { key: "k", fingerprint: "" } });
    expect((await unit([...entries, keyed], 1)).revisions).toEqual({ acme: 0 });
    const validated = routesOf({ acme: [] }, { revision: 7 });
    expect((await unit([entry("x")], 0, validated)).revisions).toEqual({ acme: 3, [CATALOGUE]: 7 });
  });

  test("has the exact bodies, the header's part of each event, and the destinations", async () => {
    const csv = encoder.encode("a;b");
    const entries = [
      entry("x", [event("a", { deliverAt: LATER })]),
      entry("y", [
        optioned(
          { destinationIds: ["d2"], tags: ["t"], channels: ["c"], ttlSeconds: 60, headers: { "x-a": "1" } },
          { deliverAt: LATER, tenant: "other" },
        ),
      ]),
      entry("z", [optioned({ contentType: "text/csv" }, { deliverAt: LATER, body: csv })]),
    ];
    const routes = routesOf({ acme: [route("d1")], other: [route("d2"), route("d3")] });
    const { bundles, keys } = await unit(entries, 0, routes);
    expect(keys).toEqual([]);
    const [bundle] = bundles;
    expect(bundle).toMatchObject({
      ...{ tokens: ["x", "y", "z"], count: 3, deliverAt: LATER },
      plan: { d1: [0, 0], d2: [1, 1] },
      header: {
        version: 2,
        headerBytes: 17,
        tags: [[1, "t", [1, 1]]],
        channels: [["c", [1, 1]]],
        ttls: [[60, [1, 1]]],
        contentTypes: { 2: "text/csv" },
        addressed: [1, 1],
      },
    });
    if (!bundle) throw new Error("There is one bundle");
    expect(bundle.header).not.toHaveProperty("keys");
    const bodies = entries.map(({ events }) => events[0]?.body);
    expect(headersOf(bundle.header)).toEqual([
      { tenant: "acme", type: "a", bytes: bodies[0]?.byteLength },
      { tenant: "other", type: "a", bytes: bodies[1]?.byteLength },
      { tenant: "acme", type: "a", bytes: 3, contentType: "text/csv" },
    ]);
    const contents = await readContents(bundle.hex, bundle.header);
    expect(contents?.map(({ body }) => new TextDecoder().decode(body))).toEqual(
      bodies.map((body) => new TextDecoder().decode(body)),
    );
    expect(contents?.map(({ headers }) => headers)).toEqual([undefined, { "x-a": "1" }, undefined]);
  });

  test("has no parts for features that its events do not use", async () => {
    const [bundle] = (await unit([entry("x")])).bundles;
    expect(Object.keys(bundle?.header ?? {}).sort()).toEqual(
      ["version", "encoding", "checksum", "tenants", "types", "events"].sort(),
    );
  });

  test("has the places of each key's events, in the posted order", async () => {
    const list = keyed("list", ...fourEvents);
    const { bundles, keys } = await unit([list]);
    expect(keys).toEqual([
      {
        tenant: "acme",
        ...{ key: "key of list", fingerprint: "list" },
        tokens: ["list.0", "list.1"],
        places: [
          [0, 0],
          [1, 0],
          [0, 1],
          [1, 1],
        ],
      },
    ]);
    // Retention removes the key with the bundle of the first event.
    expect(bundles.map(({ header }) => header.keys)).toEqual([[["acme", "key of list"]], undefined]);
  });

  test("has the places of single events with keys in their shared bundle", async () => {
    const { bundles, keys } = await unit([
      keyed("x"),
      entry("y"),
      keyed("z", event("b", { tenant: "other" })),
    ]);
    expect(keys).toEqual([
      { tenant: "acme", key: "key of x", fingerprint: "x", tokens: ["x"], places: [[0, 0]] },
      { tenant: "other", key: "key of z", fingerprint: "z", tokens: ["z"], places: [[0, 2]] },
    ]);
    expect(bundles.map(({ header }) => header.keys)).toEqual([
      [
        ["acme", "key of x"],
        ["other", "key of z"],
      ],
    ]);
  });
});

test("a key belongs to the tenant of the last event, and an entry is routed by all of its tenants", () => {
  const three = ["b", "a", "b", "c"].map((tenant) => event("a", { tenant }));
  expect(keyTenantOf(entry("x", three))).toBe("c");
  expect(routedBy([entry("x", three), entry("y")])).toEqual(["b", "a", "c", "acme", CATALOGUE]);
});

describe("an event is for", () => {
  const routes = routesOf({
    acme: [
      route("all"),
      route("of b", { types: ["b"] }),
      route("of x", { channels: ["x"] }),
      route("of one", { filter: { n: 1 } }),
      route("raw", { takesContent: true }),
      route("raw of x", { takesContent: true, channels: ["x"] }),
    ],
    other: [route("theirs")],
  });

  test.each<[string, PostedEvent, string[]]>([
    ["its tenant's destinations that take it", event("a"), ["all", "raw"]],
    ["those of its type too", event("b"), ["all", "of b", "raw"]],
    ["those of its channels too", optioned({ channels: ["x"] }), ["all", "of x", "raw", "raw of x"]],
    ["those whose filter it fits too", event("a", {}, { n: 1 }), ["all", "of one", "raw"]],
    [
      "those alone that it names and that take it",
      optioned({ destinationIds: ["of b", "raw", "theirs"] }),
      ["raw"],
    ],
    ["nobody when it names none", optioned({ destinationIds: [] }), []],
    [
      "those that take content, when it is content",
      optioned({ contentType: "text/csv", channels: ["x"] }),
      ["raw", "raw of x"],
    ],
    ["nobody where its tenant has no destinations", event("a", { tenant: "nobody" }), []],
  ])("%s", (_whom, given, expected) => {
    expect(routeOf(given, routes)).toEqual(expected);
  });
});

describe("an entry is refused", () => {
  const ENVELOPES = "is not JSON, and is taken only by destinations that get envelopes: ";
  const routes = routesOf(
    {
      acme: [route("d1"), route("d2", { channels: ["x"] })],
      raw: [route("r1"), route("r2", { takesContent: true, filter: null })],
      many: Array.from({ length: 11 }, (_, i) => route(`m${i}`)),
    },
    {
      schemas: new Map([["checked", { type: "object", required: ["n"] }]]),
      asked: new Map<string, JsonSchema>([
        ["checked", false],
        ["described", { type: "object", required: ["n"] }],
      ]),
    },
  );
  const body = (data: unknown) => encoder.encode(JSON.stringify({ type: "checked", data }));
  const csv = (options: EventOptions = {}, tenant = "acme") =>
    optioned({ contentType: "text/csv", ...options }, { tenant });
  const faultOf = (given: PostedEvent, also: Partial<Entry> = {}) =>
    eventFaultsOf(entry("x", [given], also), routes).map(({ field, fault }) => `${field} ${fault}`);

  test.each<[string, PostedEvent, string[]]>([
    [
      "for each destination that it names and that is not its tenant's",
      optioned({ destinationIds: ["d1", "r1", "d2", "d3"] }),
      ['destination_ids[1] is "r1"', 'destination_ids[3] is "d3"'],
    ],
    [
      "for any that a tenant without destinations names",
      optioned({ destinationIds: ["d1"] }, { tenant: "nobody" }),
      ['destination_ids[0] is "d1"'],
    ],
    ["for content that only destinations with envelopes take", csv(), [`body ${ENVELOPES}d1`]],
    ["for content of their channels", csv({ channels: ["x"] }), [`body ${ENVELOPES}d1, d2`]],
    ["for content that it names them for", csv({ destinationIds: ["r1"] }, "raw"), [`body ${ENVELOPES}r1`]],
    [
      "naming ten of them at most",
      csv({}, "many"),
      [`body ${ENVELOPES}m0, m1, m2, m3, m4, m5, m6, m7, m8, m9`],
    ],
    [
      "for data that does not fit the schema of its type",
      event("checked", { body: body({ m: 1 }) }),
      ["data#/n is missing"],
    ],
    [
      "for data that does not fit the schema that it requests to be validated by",
      event("described", { body: body({ m: 1 }), options: { validate: true } }),
      ["data#/n is missing"],
    ],
    [
      "for content of a type with a schema",
      { ...csv(), type: "checked", tenant: "nobody" },
      ["body is text/csv, and the type checked has a schema that data must fit"],
    ],
    [
      "for requesting validation without a schema",
      optioned({ validate: true }),
      ["type is a, which has no schema in the catalogue"],
    ],
  ])("%s", (_why, given, expected) => {
    expect(faultOf(given)).toEqual(expected);
  });

  test.each<[string, PostedEvent]>([
    ["names its tenant's destinations", optioned({ destinationIds: ["d2", "d1"] })],
    ["is content that one destination takes", csv({}, "raw")],
    ["is content that nobody takes", csv({}, "nobody")],
    ["is content for channels that nobody has", csv({ destinationIds: ["d2"], channels: ["y"] })],
    ["fits the schema of its type", event("checked", { body: body({ n: 1 }) })],
    ["is of a type that is not validated, and does not ask for it", event("described", { body: body({}) })],
    ["asks to be judged and fits", event("described", { body: body({ n: 1 }), options: { validate: true } })],
    [
      "requests validation that its type has anyway",
      event("checked", { body: body({ n: 1 }), options: { validate: true } }),
    ],
    ["is of a type without a schema", event("b")],
    ["is of a type that is called like a method", event("toString")],
  ])("but not when it %s", (_what, given) => {
    expect(faultOf(given)).toEqual([]);
  });

  test("but not because of a schema when it is Breakwater's own", () => {
    expect(faultOf(event("checked", { body: body(7) }), { isOwn: true })).toEqual([]);
    expect(faultOf(optioned({ destinationIds: ["d9"] }), { isOwn: true })).toHaveLength(1);
  });

  test("with the place of each faulty event, and the expectation", () => {
    const events = [
      event("a"),
      optioned({ destinationIds: ["d9"] }),
      event("checked", { body: body(7) }),
      csv(),
      optioned({ validate: true }),
      event("checked", { options: { contentType: "text/csv" }, tenant: "nobody" }),
    ];
    expect(eventFaultsOf(entry("x", events), routes).map(({ place, expected }) => [place, expected])).toEqual(
      [
        [1, "the id of a destination of the tenant acme"],
        [2, "a value of the type object"],
        [3, 'JSON, or a destination with `body: "data"`'],
        [4, "a type with a schema: see /v1/event-types"],
        [5, "an event with `data`"],
      ],
    );
  });
});
