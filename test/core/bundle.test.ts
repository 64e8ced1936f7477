import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  bundled,
  bundleOf,
  channelsAt,
  deliveriesOf,
  destinationsOf,
  eventAt,
  headerAt,
  headersOf,
  headersText,
  indexesOf,
  indexOf,
  joined,
  lengthOf,
  MAX_BYTES,
  MAX_EVENTS,
  partsOf,
  planOf,
  runsInclude,
  runsOf,
  storedHeader,
  tagsAt,
  ttlAt,
} from "../../src/core/bundle.ts";

const indexes = fc.uniqueArray(fc.nat(99), { maxLength: 100 }).map((list) => list.sort((a, b) => a - b));

describe("an event's number", () => {
  test("contains its bundle and its index, and sorts by them", () => {
    fc.assert(
      fc.property(fc.nat(2 ** 40), fc.nat(99), (bundle, index) => {
        const number = eventAt(bundle, index);
        expect([bundleOf(number), indexOf(number)]).toEqual([bundle, index]);
        expect(eventAt(bundle + 1, 0)).toBeGreaterThan(number);
      }),
    );
  });
});

describe("runs", () => {
  test("stand for the indexes that they were made of", () => {
    fc.assert(
      fc.property(indexes, fc.nat(127), (list, index) => {
        const runs = runsOf(list);
        expect(indexesOf(runs)).toEqual(list);
        expect(lengthOf(runs)).toBe(list.length);
        expect(runsInclude(runs, index)).toBe(list.includes(index));
      }),
    );
  });

  test("are two numbers for any number of neighbours", () => {
    expect(runsOf(Array.from({ length: 100 }, (_, i) => i))).toEqual([0, 99]);
    expect(runsOf([1, 3, 4, 5, 9])).toEqual([1, 1, 3, 5, 9, 9]);
    expect(runsOf([])).toEqual([]);
  });

  test("that were edited into nonsense stand for a bounded number of indexes", () => {
    expect(indexesOf([5])).toEqual([]);
    expect(indexesOf([0])).toEqual([]);
    expect(runsInclude([0], 0)).toBe(false);
    expect(lengthOf([5])).toBe(0);
    expect(indexesOf([5, 3])).toEqual([]);
    expect(indexesOf([120, 1e9])).toEqual([120, 121, 122, 123, 124, 125, 126, 127]);
  });
});

describe("a plan", () => {
  test("has the destinations of each event, and counts all deliveries", () => {
    const destinations = fc.subarray(["dst_a", "dst_b", "dst_c"]);
    fc.assert(
      fc.property(fc.array(destinations, { maxLength: 100 }), (each) => {
        const plan = planOf(each);
        expect(each.map((_, i) => destinationsOf(plan, i).toSorted())).toEqual(each);
        expect(deliveriesOf(plan)).toBe(each.flat().length);
      }),
    );
  });
});

describe("deliveries by their names", () => {
  const key = fc.record({
    eventId: fc.tuple(fc.constantFrom(1, 2), fc.nat(12)).map(([bundle, index]) => eventAt(bundle, index)),
    destinationId: fc.constantFrom("dst_a", "dst_b"),
  });

  test("are parts: one for each bundle and destination, with each delivery once", () => {
    fc.assert(
      fc.property(fc.array(key, { maxLength: 60 }), (keys) => {
        const parts = partsOf(keys);
        const found = parts.flatMap(({ bundle, destinations: [destination], indexes = [] }) =>
          indexesOf(indexes).map((index) => `${eventAt(bundle, index)} ${destination}`),
        );
        const given = new Set(keys.map(({ eventId, destinationId }) => `${eventId} ${destinationId}`));
        expect(found.toSorted()).toEqual([...given].sort());
        const groups = new Set(
          keys.map(({ eventId, destinationId }) => `${bundleOf(eventId)} ${destinationId}`),
        );
        expect(parts).toHaveLength(groups.size);
        for (const { destinations } of parts) expect(destinations).toHaveLength(1);
      }),
    );
  });

  test("of neighbours in any order are one run", () => {
    const keys = [12, 2, 1, 11, 10, 2].map((index) => ({
      eventId: eventAt(7, index),
      destinationId: "dst_a",
    }));
    expect(partsOf(keys)).toEqual([{ bundle: 7, destinations: ["dst_a"], indexes: [1, 2, 10, 12] }]);
    expect(partsOf([])).toEqual([]);
  });
});

describe("a header", () => {
  const event = fc.record({
    tenant: fc.constantFrom("a", "b"),
    type: fc.constantFrom("x", "y", "z"),
    bytes: fc.nat(1_000),
  });
  const withOptions = fc.record({
    event,
    tags: fc.option(fc.uniqueArray(fc.constantFrom("p", "q", "r"), { minLength: 1 }), { nil: undefined }),
    channels: fc.option(fc.array(fc.constantFrom("p", "q", "s"), { minLength: 1 }), { nil: undefined }),
    ttlSeconds: fc.option(fc.constantFrom(1, 60, 3_600), { nil: undefined }),
  });

  test("has the tags, channels and time to live of each event, and is shorter without them", () => {
    fc.assert(
      fc.property(fc.array(withOptions, { maxLength: 100 }), (events) => {
        const given = events.map(({ event, ...options }) => ({ ...event, ...options }));
        const header = JSON.parse(JSON.stringify(storedHeader(given, { encoding: "gzip" })));
        expect(events.map((_, i) => tagsAt(header, i).toSorted())).toEqual(
          events.map(({ tags = [] }) => tags.toSorted()),
        );
        expect(events.map((_, i) => channelsAt(header, i))).toEqual(
          events.map(({ channels = [] }) => [...new Set(channels)].sort()),
        );
        expect(events.map((_, i) => ttlAt(header, i))).toEqual(events.map(({ ttlSeconds }) => ttlSeconds));
        const { tags: _, ttls: __, channels: ___, ...rest } = header;
        const plain = storedHeader(
          events.map(({ event }) => event),
          { encoding: "gzip" },
        );
        expect(JSON.stringify({ ...rest, version: 1 })).toBe(JSON.stringify(plain));
        expect(header.version).toBe(events.some(({ ttlSeconds }) => ttlSeconds !== undefined) ? 2 : 1);
      }),
    );
  });

  test("has the given properties of each event, and none of an event that does not exist", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 100 }), (events) => {
        const header = JSON.parse(JSON.stringify(storedHeader(events, { encoding: "gzip" })));
        expect(events.map((_, i) => headerAt(header, i))).toEqual(events);
        expect(headerAt(header, events.length)).toBeUndefined();
      }),
    );
  });
});

describe("a header contains", () => {
  const plain = { tenant: "a", type: "x", bytes: 5 };

  test("which events were posted for certain destinations, if there are any", () => {
    const some = storedHeader([plain, { ...plain, isAddressed: true }, plain], { encoding: "gzip" });
    expect(some).toStrictEqual({
      ...storedHeader([plain, plain, plain], { encoding: "gzip" }),
      addressed: [1, 1],
    });
    expect(storedHeader([plain], { encoding: "gzip" })).not.toHaveProperty("addressed");
  });

  test("the content types of those events that have one", () => {
    const events = [plain, { ...plain, contentType: "text/csv" }];
    const header = storedHeader(events, { encoding: "plain" });
    expect(header).toMatchObject({ version: 2, contentTypes: { 1: "text/csv" } });
    expect(headersOf(header)).toStrictEqual(events);
    expect(storedHeader([plain], { encoding: "plain" })).not.toHaveProperty("contentTypes");
  });

  test("a mark that keeps code without support for request headers from delivering without them", () => {
    expect(storedHeader([plain], { encoding: "gzip", headerBytes: 20 })).toMatchObject({ version: 2 });
    expect(storedHeader([plain], { encoding: "gzip" })).toMatchObject({ version: 1 });
  });

  test("nothing about an event whose part is cut off", () => {
    const header = { ...storedHeader([plain, plain], { encoding: "gzip" }), events: [0, 0, 5, 0, 0] };
    expect(headersOf(header)).toEqual([plain]);
    expect(headerAt(header, 1)).toBeUndefined();
    expect(headerAt({ ...header, events: [0, 0, 5, 0] }, 1)).toBeUndefined();
  });

  test("no tenant and no type when their names are missing from it", () => {
    const header = storedHeader([plain], { encoding: "gzip" });
    expect(headerAt({ ...header, tenants: [], types: [] }, 0)).toEqual({ tenant: "", type: "", bytes: 5 });
  });
});

test("the events' own headers are JSON by index, and nothing when no event has any", () => {
  expect(headersText([undefined, { "x-a": "1" }, undefined])).toBe('{"1":{"x-a":"1"}}');
  expect(headersText([undefined, undefined])).toBeUndefined();
});

test("parts are joined in their order, and a single one is not copied", () => {
  const [first, second] = [Uint8Array.of(1, 2), Uint8Array.of(3)];
  expect(joined([first, second])).toEqual(Uint8Array.of(1, 2, 3));
  expect(joined([first])).toBe(first);
  expect(joined([])).toEqual(new Uint8Array());
});

describe("events are bundled", () => {
  const sized = fc.record({
    bytes: fc.integer({ min: 1, max: 256 * 1024 }),
    deliverAt: fc.constantFrom(undefined, 1, 2),
  });

  test("each once, in order, within the bounds, and together with those of the same time", () => {
    fc.assert(
      fc.property(fc.array(sized, { maxLength: 300 }), (events) => {
        const bundles = bundled(events);
        expect(bundles.flat().toSorted((a, b) => a - b)).toEqual(events.map((_, i) => i));
        for (const places of bundles) {
          expect(places).toEqual(places.toSorted((a, b) => a - b));
          expect(places.length).toBeLessThanOrEqual(MAX_EVENTS);
          expect(new Set(places.map((place) => events[place]?.deliverAt)).size).toBe(1);
          const bytes = places.reduce((sum, place) => sum + (events[place]?.bytes ?? 0), 0);
          if (places.length > 1) expect(bytes).toBeLessThanOrEqual(MAX_BYTES);
        }
      }),
    );
  });

  test("up to exactly the most events and the most bytes", () => {
    const small = Array.from({ length: MAX_EVENTS + 1 }, () => ({ bytes: 10 }));
    expect(bundled(small).map((one) => one.length)).toEqual([MAX_EVENTS, 1]);
    const half = { bytes: MAX_BYTES / 2 };
    expect(bundled([half, half, { bytes: 1 }])).toEqual([[0, 1], [2]]);
  });

  test("into as few as their number allows while they are small", () => {
    expect(bundled(Array.from({ length: 1_000 }, () => ({ bytes: 1_000 })))).toHaveLength(10);
  });
});
