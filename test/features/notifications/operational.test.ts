/** Operational events: each is published once, delivered like every event, and none is about the operator's own trouble. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { publishStall } from "../../../src/features/notifications/publish.ts";
import { checkThresholds } from "../../../src/features/notifications/thresholds.ts";
import { setDestinationStatus } from "../../../src/store/destinations.ts";
import { recordOutcomes } from "../../../src/store/record.ts";
import { runCron } from "../../../src/upkeep.ts";
import { bundlesOf, insertBundles } from "../../support/bundle-rows.ts";
import { operationalEvents } from "../../support/operational.ts";
import { named, newDestination, newWorld, START, statusOf, urlOf, type World } from "../../support/world.ts";

const MINUTE = 60_000;

let world: World;
let place: string;
let operator: string;
beforeEach(async () => {
  world = await newWorld();
  place = await newDestination();
  operator = await newDestination({ tenant: "operator" });
});

const published = () => operationalEvents(env.DB);
const publishedTypes = async () => (await published()).map(({ type }) => type);

/** Delivers what has been put on the queue, retries at once and without their delay. */
async function deliverAll(): Promise<void> {
  const messages = world.deliveryQueue.taken().map(({ body }) => body);
  if (messages.length > 0) await world.consume(messages);
  await world.settled();
}

async function send(count: number, answer: number): Promise<void> {
  world.receiver.script(urlOf(place), answer);
  await world.consume(await world.post(count));
  await world.settled();
}

const callsTo = (destination: string) =>
  world.receiver.calls.filter(({ url }) => url === urlOf(destination)).length;

test("an event about a destination other than an endpoint names no host, and nothing of its target", async () => {
  await env.DB.prepare("UPDATE destinations SET url = 'service:BILLING/hook' WHERE id = ?1")
    .bind(place)
    .run();
  const pause = { status: "paused", statusReason: "manual" } as const;
  await setDestinationStatus(env.DB, place, pause, undefined, START);
  world.clock.pass(MINUTE);
  await runCron(world.services);
  await world.settled();
  const [event] = await published();
  expect(event).toMatchObject({ type: "destination.paused", data: { destination_id: place, host: null } });
  expect(JSON.stringify(event)).not.toContain("BILLING");
});

describe("a circuit", () => {
  test("that opens and closes causes two events, with destination, times and figures only", async () => {
    await send(10, 500);
    world.clock.pass(40_000);
    await send(1, 500);
    world.clock.pass(80_000);
    await send(1, 204);
    const who = { destination_id: place, tenant: "acme", host: new URL(urlOf(place)).host };
    expect(await published()).toMatchObject([
      {
        type: "destination.circuit_opened",
        data: {
          ...who,
          at: new Date(START).toISOString(),
          last_15_minutes: { failures: expect.any(Number) },
        },
      },
      { type: "destination.circuit_closed", data: who },
    ]);
  });

  test("is published by a signed delivery to the operator's destination", async () => {
    await send(10, 500);
    await deliverAll();
    const call = world.receiver.calls.find(({ url }) => url === urlOf(operator));
    expect(JSON.parse(call?.body ?? "")).toMatchObject({ type: "destination.circuit_opened" });
    expect(call?.headers.get("webhook-signature")).toMatch(/^v1,/);
  });

  test("is not published, and costs no row, if no destination takes it", async () => {
    await env.DB.prepare("UPDATE destinations SET deleted_at = 1 WHERE tenant = 'operator'").run();
    await send(10, 500);
    expect(await published()).toEqual([]);
    expect(world.logged("circuit_opened")).toHaveLength(1);
  });
});

describe("a pause", () => {
  test("because of a 410 is published once, whatever else answers 410", async () => {
    await world.earnTrust(place);
    await send(5, 410);
    expect(await statusOf(place)).toEqual(["paused", "gone"]);
    expect(await published()).toMatchObject([
      { type: "destination.paused", data: { destination_id: place, reason: "gone" } },
    ]);
    expect(world.logged("destination_paused")).toHaveLength(1);
  });

  test("because of refusals is published with its reason", async () => {
    await world.earnTrust(place, 30);
    for (let i = 0; i < 15; i++) {
      world.clock.pass(5_000);
      await send(10, 400);
    }
    expect(await statusOf(place)).toEqual(["paused", "rejecting"]);
    expect(await published()).toMatchObject([{ type: "destination.paused", data: { reason: "rejecting" } }]);
  });

  /** The next write of a pause is made, and its answer is lost. */
  function loseAnswer(): void {
    let answers = 1;
    world.d1.failing((sql) => (isPause(sql) && answers-- > 0 ? "after" : undefined));
  }
  const isPause = (sql: string) => /UPDATE "?destinations"? SET "?status"? =/i.test(sql);

  async function expectPublished(...expected: readonly [type: string, reason: string][]): Promise<void> {
    const events = (await operationalEvents(env.DB)).map(({ type, data }) => [type, data.reason]);
    expect(events).toEqual(expected);
    const lines = world.log.filter(({ what }) => /^destination_/.test(what));
    expect(lines.map(({ what, reason }) => [what, reason])).toEqual(
      expected.map(([type, reason]) => [type.replace(".", "_"), reason]),
    );
  }

  test("because of a 410 is published once, even if D1's answer to the write is lost", async () => {
    const messages = await world.post();
    world.receiver.script(urlOf(place), 410);
    loseAnswer();
    const delivering = world.consume(messages);
    await world.clock.asleep(188);
    world.clock.pass(188);
    await delivering;
    await world.settled();
    expect(await statusOf(place)).toEqual(["paused", "gone"]);
    await expectPublished(["destination.paused", "gone"]);
    world.clock.pass(MINUTE);
    await runCron(world.services);
    await expectPublished(["destination.paused", "gone"]);
  });

  test("because of refusals is published once, even if D1's answer to the write is lost", async () => {
    await world.earnTrust(place, 30);
    loseAnswer();
    for (let i = 0; i < 15; i++) {
      world.clock.pass(5_000);
      await send(10, 400);
    }
    expect(await statusOf(place)).toEqual(["paused", "rejecting"]);
    await expectPublished(["destination.paused", "rejecting"]);
  });

  test("whose Worker is killed before it publishes it is published within two minutes, once", async () => {
    await recordOutcomes(world.services, [], [place], world.clock.now());
    for (let minute = 0; minute < 3; minute++) {
      world.clock.pass(MINUTE);
      await runCron(world.services);
      await expectPublished(["destination.paused", "gone"]);
    }
  });

  test("by an operator, and its end, are published even if D1's answers are lost", async () => {
    for (const status of ["paused", "active"] as const) {
      loseAnswer();
      const turned = setDestinationStatus(
        world.services.db,
        place,
        { status, statusReason: status === "paused" ? "manual" : null },
        undefined,
        world.clock.now(),
      );
      await expect(turned).rejects.toThrow();
      world.clock.pass(1_000);
    }
    world.clock.pass(MINUTE);
    await runCron(world.services);
    await expectPublished(["destination.paused", "manual"], ["destination.resumed", "manual"]);
  });

  test("that could not be published, because D1 was away, is published by the next minute's cron", async () => {
    failWrites(...Array(9).fill("before"));
    await send(1, 410);
    expect(await published()).toEqual([]);
    world.d1.failing(() => undefined);
    world.clock.pass(MINUTE);
    await runCron(world.services);
    expect(await published()).toMatchObject([{ type: "destination.paused", data: { reason: "gone" } }]);
    expect(world.logged("notifications_lost")).toHaveLength(1);
  });
});

describe("dead deliveries", () => {
  /** Consumes the digest's message after its minute. */
  async function askForToll(): Promise<number> {
    const sent = world.upkeepQueue.taken().filter(({ body }) => "deadLetterDigest" in body);
    expect(sent.every(({ delaySeconds }) => delaySeconds === 60)).toBe(true);
    world.clock.pass(MINUTE);
    await world.keepUp(sent.map(({ body }) => body));
    return sent.length;
  }

  test("of a minute are one event, however many they are", async () => {
    await world.earnTrust(place, 30);
    for (let i = 0; i < 5; i++) await send(10, 400);
    expect(await published()).toEqual([]);
    expect(await askForToll()).toBe(1);
    const since = new Date(START).toISOString();
    expect(await published()).toMatchObject([
      { type: "delivery.dead", data: { destination_id: place, deliveries: 50, since } },
    ]);
    await send(1, 400);
    expect(await askForToll()).toBe(1);
    expect((await published()).map(({ data }) => data.deliveries)).toEqual([50, 1]);
  });

  test("include those that expired while they waited", async () => {
    await env.DB.prepare("UPDATE destinations SET status = 'paused' WHERE id = ?1").bind(place).run();
    await world.consume(await world.post(3));
    world.clock.pass(15 * 24 * 3_600_000);
    await runCron(world.services);
    await world.settled();
    expect(world.logged("deliveries_dead")).toMatchObject([{ destination: place, deliveries: 3 }]);
    await askForToll();
    expect(await published()).toMatchObject([{ type: "delivery.dead", data: { deliveries: 3 } }]);
  });

  test("are published once, even if the digest's message arrives twice", async () => {
    await send(1, 400);
    const [sent] = world.upkeepQueue.taken().filter(({ body }) => "deadLetterDigest" in body);
    await world.keepUp([sent?.body, sent?.body]);
    await world.keepUp([sent?.body]);
    expect(await publishedTypes()).toEqual(["delivery.dead"]);
  });

  test("are published with a later digest, if the digest's message could not be enqueued", async () => {
    world.upkeepQueue.break(true);
    await send(1, 400);
    world.upkeepQueue.break(false);
    expect(world.logged("dead_letter_digest_not_sent")).toHaveLength(1);
    world.clock.pass(3 * MINUTE);
    await send(1, 400);
    await askForToll();
    expect(await published()).toMatchObject([{ data: { deliveries: 2 } }]);
  });
});

describe("a storm", () => {
  test("is published when it is detected and when it is over, and each is a log line", async () => {
    await world.earnTrust(place, 12);
    world.clock.pass(20 * MINUTE);
    const messages = await world.post(10);
    world.receiver.script(urlOf(place), 409);
    for (let i = 0; i < 12; i++) {
      await world.consume(messages);
      await world.settled();
      await env.DB.prepare("UPDATE deliveries SET next_attempt_at = 0 WHERE state = 'retrying'").run();
      world.clock.pass(MINUTE);
    }
    expect(await publishedTypes()).toEqual(["destination.storm_detected"]);
    world.clock.pass(20 * MINUTE);
    await send(1, 204);
    expect(await published()).toMatchObject([
      { type: "destination.storm_detected", data: { last_15_minutes: { retry_ratio: expect.any(Number) } } },
      { type: "destination.recovered", data: { destination_id: place } },
    ]);
    expect(world.logged("storm_detected")).toMatchObject([{ destination: place }]);
    expect(world.logged("storm_over")).toMatchObject([{ destination: place }]);
  });
});

describe("the sweep's silence", () => {
  test("is published once, by the cron that ends it and by a health request before", async () => {
    await runCron(world.services);
    expect(await published()).toEqual([]);
    const heartbeat = START;
    world.clock.pass(6 * MINUTE);
    for (let i = 0; i < 3; i++) await publishStall(world.services, heartbeat);
    await runCron(world.services);
    expect(await published()).toMatchObject([
      { type: "sweep.stalled", data: { heartbeat_at: new Date(heartbeat).toISOString(), age_s: 360 } },
    ]);
    world.clock.pass(MINUTE);
    await runCron(world.services);
    expect(await publishedTypes()).toEqual(["sweep.stalled"]);
  });

  test("does not begin within five minutes, nor before the first sweep", async () => {
    await publishStall(world.services, null);
    await publishStall(world.services, START - 5 * MINUTE);
    expect(await published()).toEqual([]);
  });
});

describe("the thresholds", () => {
  async function deaths(destination: string): Promise<void> {
    await env.DB.prepare("UPDATE destinations SET max_concurrency = 100 WHERE id = ?1")
      .bind(destination)
      .run();
    const gate = world.services.gates.get(world.services.gates.idFromName(destination));
    await gate.countDead(200);
  }
  /** The quarter of an hour at which thresholds are checked. */
  const quarter = () => world.clock.pass(15 * MINUTE - (world.clock.now() % (15 * MINUTE)));

  test("that are crossed are published, each once an hour", async () => {
    quarter();
    await deaths(place);
    for (let i = 0; i < 2; i++) await checkThresholds(world.services);
    const crossed = (await published()).filter(({ data }) => data.threshold === "dead_letter_rate");
    expect(crossed).toMatchObject([
      { type: "threshold.crossed", data: { value: 1, limit: 0.01, window: "1h" } },
    ]);
  });

  test("are checked every 15 minutes, and only if a destination receives notifications", async () => {
    quarter();
    await deaths(place);
    world.gates.called();
    world.clock.pass(MINUTE);
    await checkThresholds(world.services);
    expect(world.gates.called()).toEqual([]);
    quarter();
    await env.DB.prepare("UPDATE destinations SET deleted_at = 1 WHERE tenant = 'operator'").run();
    await checkThresholds(world.services);
    expect(world.gates.called()).toEqual([]);
  });

  test("name the destinations that have most of it, in the event and in the log", async () => {
    quarter();
    await newDestination();
    await deaths(place);
    await checkThresholds(world.services);
    const crossed = (await published()).filter(({ data }) => data.threshold === "dead_letter_rate");
    expect(crossed).toMatchObject([{ data: { destinations: [place] } }]);
    const lines = world
      .logged("threshold_crossed")
      .filter(({ threshold }) => threshold === "dead_letter_rate");
    expect(lines).toMatchObject([{ destinations: place }]);
  });

  test("name the destinations with deliveries that have been retried for a day, and still those with dead ones", async () => {
    const stuck = await newDestination();
    for (let i = 0; i < 15; i++) await newDestination();
    await deaths(place);
    const acceptedAt = world.clock.now() - 50 * 3_600_000;
    await insertBundles(env.DB, bundlesOf(Array(101).fill({}), { acceptedAt }));
    await env.DB.prepare(
      `INSERT INTO deliveries (destination_id, event_id, state, attempts, first_attempt_at, next_attempt_at, give_up_at)
       SELECT ?1, id, 'retrying', 1, accepted_at, ?2, ?2 FROM events`,
    )
      .bind(stuck, world.clock.now() + 3_600_000)
      .run();
    quarter();
    await checkThresholds(world.services);
    const named = Object.fromEntries(
      (await published()).map(({ data }) => [data.threshold, data.destinations]),
    );
    expect(named).toMatchObject({ retrying_for_a_day: [stuck], dead_letter_rate: [place] });
  });

  test("are crossed by a backlog that grows from check to check, also beyond a thousand", async () => {
    await newDestination();
    async function wait(count: number): Promise<void> {
      await env.DB.prepare(
        `INSERT INTO deliveries (destination_id, event_id, state, give_up_at)
         SELECT ?1, (SELECT coalesce(max(event_id), 0) FROM deliveries) + e.key + 1, 'waiting', ?2
         FROM json_each(?3) e`,
      )
        .bind(place, world.clock.now() + 72 * 3_600_000, JSON.stringify(Array(count).fill(0)))
        .run();
    }
    const growths = async () => (await published()).filter(({ data }) => data.threshold === "backlog_growth");
    for (const more of [1_000, 500]) {
      await wait(more);
      quarter();
      await checkThresholds(world.services);
      expect(await growths()).toEqual([]);
    }
    await wait(500);
    quarter();
    await checkThresholds(world.services);
    expect(await growths()).toMatchObject([
      { data: { value: 1_000, limit: 200, window: "30m", destinations: [place] } },
    ]);
  });

  test("are not crossed by the operator's own destinations", async () => {
    quarter();
    await deaths(operator);
    await checkThresholds(world.services);
    expect(await published()).toEqual([]);
  });
});

describe("the operator's own destination", () => {
  test("causes no events, whatever happens to it and its deliveries", async () => {
    world.receiver.script(urlOf(operator), ...Array(100).fill(500), 410);
    world.receiver.script(urlOf(place), 500);
    for (let i = 0; i < 60; i++) {
      const posted = { tenant: "operator", type: "destination.paused", destinations: [operator] };
      const [event = 0] = await insertBundles(env.DB, [{ acceptedAt: world.clock.now(), events: [posted] }]);
      await world.consume([{ eventId: event, destinationId: operator }]);
      await world.settled();
      world.clock.pass(30_000);
      await world.drain(operator);
      await world.settled();
    }
    expect(callsTo(operator)).toBeGreaterThan(10);
    expect(world.logged("circuit_opened").length).toBeGreaterThan(0);
    const raised = (await published()).filter(({ key }) => key !== null);
    expect(raised).toEqual([]);
    const messages = await named(world.deliveryQueue.taken().map(({ body }) => body));
    expect(messages.filter(({ destinationId }) => destinationId !== operator)).toEqual([]);
  });

  test("that answers 410 is paused, and nothing is published about it", async () => {
    await send(10, 500);
    world.receiver.script(urlOf(operator), 410);
    await deliverAll();
    expect(await statusOf(operator)).toEqual(["paused", "gone"]);
    expect(await publishedTypes()).toEqual(["destination.circuit_opened"]);
  });
});

/** The next writes of operational events fail in these ways, one after the other. */
function failWrites(...faults: ("before" | "after")[]): void {
  world.d1.failing((sql) => {
    const fault = sql.includes("INSERT INTO idempotency_keys") ? faults.shift() : undefined;
    if (fault) void world.clock.asleep(PAUSE_MS).then(() => world.clock.pass(PAUSE_MS));
    return fault;
  });
}

/** Before a commit is repeated, with the world's chance. */
const PAUSE_MS = 75;

describe("a circuit that opens is published once", () => {
  test.each([
    ["D1's answer is lost", "after"],
    ["D1 is away for a moment", "before"],
  ] as const)("when %s", async (_, fault) => {
    failWrites(fault);
    await send(10, 500);
    expect((await published()).map(({ type }) => type)).toEqual(["destination.circuit_opened"]);
    expect(world.logged("notifications_lost")).toEqual([]);
  });
});

test("a crossed threshold is published when D1 is away for a moment", async () => {
  world.clock.pass(15 * MINUTE - (world.clock.now() % (15 * MINUTE)));
  const gate = world.services.gates.get(world.services.gates.idFromName(place));
  await gate.countDead(200);
  failWrites("before");
  await checkThresholds(world.services);
  expect((await published()).map(({ data }) => data.threshold)).toContain("dead_letter_rate");
});

test("an event that cannot be published, because D1 is away, stops nothing", async () => {
  failWrites(...Array(9).fill("before"));
  await send(10, 500);
  expect(world.logged("notifications_lost")).toMatchObject([{ types: "destination.circuit_opened" }]);
  expect(await published()).toEqual([]);
});

describe("a destination with a template", () => {
  const withTemplate = (template: string) =>
    env.DB.prepare("UPDATE destinations SET template = ?1 WHERE id = ?2").bind(template, operator).run();
  const sent = () =>
    world.receiver.calls.filter(({ url }) => url === urlOf(operator)).map(({ body }) => body);

  test("gets the message of the service, the same on every attempt, and signed", async () => {
    await withTemplate("slack");
    world.receiver.script(urlOf(operator), 500, 200);
    await setDestinationStatus(env.DB, place, { status: "paused", statusReason: "manual" }, undefined, START);
    world.clock.pass(MINUTE);
    await runCron(world.services);
    const messages = world.deliveryQueue.taken().map(({ body }) => body);
    await world.consume(messages);
    world.clock.pass(10 * MINUTE);
    await world.consume(messages);
    const [first = "", second] = sent();
    expect(second).toBe(first);
    expect(JSON.parse(first).text).toBe(`Paused: ${new URL(urlOf(place)).host} (${place})`);
  });

  test("links to the page of the dashboard, if the deployment's host is known", async () => {
    await withTemplate("pagerduty");
    const config = { ...world.services.config, ownHosts: ["hooks.example.com", "other.example.com"] };
    await publishStall({ ...world.services, config }, START - 10 * MINUTE);
    await deliverAll();
    expect(JSON.parse(sent()[0] ?? "").client_url).toBe("https://hooks.example.com/dashboard");
  });
});
