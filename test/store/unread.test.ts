/** The oldest unread event behind a position: against a scan of everything, and at a bounded cost. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { maskOf } from "../../src/core/pack.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { oldestUnread } from "../../src/store/inbox.ts";
import { emptyDatabase } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { insertRows } from "../support/stored-deliveries.ts";

const DESTINATION = "dst_00000000000000000000";

type Logged = Readonly<{ bundle: number; indexes: readonly number[]; isScheduled?: boolean }>;

const acceptedAt = ({ bundle }: Pick<Logged, "bundle">) => 1_000_000 + bundle;

beforeEach(emptyDatabase);

async function store(log: readonly Logged[], destination = DESTINATION): Promise<void> {
  await insertBundles(
    env.DB,
    log.map((one) => ({
      id: one.bundle,
      acceptedAt: acceptedAt(one),
      deliverAt: one.isScheduled ? 2_000_000 : undefined,
      events: [{}],
    })),
  );
  const rows = log.map(({ bundle, indexes }) => {
    const [delivered0, delivered1] = maskOf(indexes);
    return { destination_id: destination, bundle_id: bundle, delivered0, delivered1 };
  });
  await insertRows(env.DB, "packs", rows);
}

const at = (event: number) => ({ destination: DESTINATION, position: { late: 0, next: [event] } });

test.each([
  1, 2, 3, 4,
])("the number of unread events is that of a scan, from any position and among scheduled ones (seed %i)", async (seed) => {
  const random = seededRandom(seed);
  const log = Array.from(
    { length: 40 },
    (_, i): Logged => ({
      bundle: 2 * i + 1,
      indexes: Array.from({ length: 100 }, (_, index) => index).filter(() => random() < 0.1),
      isScheduled: random() < 0.3,
    }),
  );
  await store(log);
  const events = log.flatMap((one) =>
    one.isScheduled
      ? []
      : one.indexes.map((index) => ({ event: eventAt(one.bundle, index), at: acceptedAt(one) })),
  );
  const bounds = [0, 49, 50, 99].map((index) => eventAt(log[3]?.bundle ?? 0, index));
  const positions = [
    ...[0, ...bounds],
    ...events.flatMap(({ event }) => [event, event + 1]),
    ...log.map(({ bundle }) => eventAt(bundle + 1, 0)),
  ];
  const found = await oldestUnread({ db: env.DB }, positions.map(at));
  const expected = positions.map((from) => events.find(({ event }) => event >= from)?.at ?? null);
  expect(found).toEqual(expected);
});

test("counting unread events reads a few rows for each position, however much is stored before and behind it", async () => {
  await store(Array.from({ length: 900 }, (_, i) => ({ bundle: i + 1, indexes: [0, 7] })));
  const metered = meteredD1(env.DB);
  const places = Array.from({ length: 50 }, (_, i) => at(eventAt(1 + 10 * i, 3)));
  metered.used();
  expect(await oldestUnread({ db: metered.db }, places)).toHaveLength(50);
  expect(metered.used()).toMatchObject({
    queries: 1,
    rowsRead: expect.toSatisfy((n: number) => n <= 4 * 50),
  });
});

test("the number of unread events is that of its own destination", async () => {
  await store([{ bundle: 1, indexes: [0] }], "dst_00000000000000000001");
  await store([{ bundle: 2, indexes: [0] }]);
  expect(await oldestUnread({ db: env.DB }, [at(0), at(eventAt(3, 0))])).toEqual([1_000_002, null]);
  expect(await oldestUnread({ db: env.DB }, [])).toEqual([]);
});
