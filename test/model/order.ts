/**
 * The model of lines: production's triggers, its SQL for places and records, and its decision whose turn has come. Two
 * consumers work at the same time, without a gate between them: the first has a message of all events, the second one of those
 * behind the first event. Each attempts what it may in a run, records it, and may die at any moment, after which its message
 * comes again.
 */
import { eventAt, indexOf } from "../../src/core/bundle.ts";
import { whoseTurn } from "../../src/core/order.ts";
import { attemptDisposition, finish } from "../../src/delivery/outcome.ts";
import type { LoadedDelivery } from "../../src/store/deliveries.ts";
import type { DeliveryRecord, DeliveryRow } from "../../src/store/delivery.ts";
import { retryPolicyOf } from "../../src/store/destination.ts";
import { linePlaces, placesFrom } from "../../src/store/lines.ts";
import { rowsIn } from "../../src/store/packs.ts";
import { recordOutcomes } from "../../src/store/record.ts";
import type { Model, Step } from "./explorer.ts";
import {
  type Answer,
  type Content,
  type Edit,
  type Program,
  type Sqlite,
  sqlite,
  standingOf,
} from "./sqlite.ts";

const NOW = 1_000_000_000;
const BUNDLE = 1;
const DESTINATION = "dst";
// Filled in this order: triggers of the first insert rows of lines, and those of lines rows of deliveries.
const TABLES = ["bundles", "lines", "deliveries", "packs"];

export type OrderScenario = Readonly<{
  /** The keys of the events, in the order of acceptance. */
  keys: readonly string[];
  /** The most attempts that may fail. */
  failures: number;
  /** The most deaths of consumers. */
  deaths: number;
}>;

type Turn = typeof whoseTurn;

export type OrderParts = Readonly<{ edit?: Edit; schema?: string; turn?: Turn }>;

/** A consumer: the deliveries that it still has to attempt, and those that it has to record. */
type Run = Readonly<{ queue: readonly LoadedDelivery[]; rows: readonly DeliveryRecord[] }>;

type World = Readonly<{
  content: Content;
  failures: number;
  deaths: number;
  /** By consumer; undefined: its message is on the queue. */
  runs: readonly (Run | undefined)[];
  /** The events by their first success. */
  succeeded: readonly number[];
  wrong?: string;
}>;

const CONSUMERS = ["The first consumer", "The second consumer"];

export function orderModel(
  scenario: OrderScenario,
  { edit, schema, turn = whoseTurn }: OrderParts = {},
): Model<World> {
  const db = sqlite(TABLES, edit, schema);
  const read: Program<readonly LoadedDelivery[]> = {
    name: `read ${scenario.keys}`,
    run: (d1) => load(d1, scenario),
  };

  async function called<T>(content: Content, program: Program<T>): Promise<{ content: Content; value: T }> {
    const answers: Answer[] = [];
    let after = content;
    for (;;) {
      const standing = await standingOf(program, answers);
      if (standing.kind === "ended") return { content: after, value: standing.value };
      if (standing.kind === "failed") throw new Error(`${program.name} failed`);
      const executed = db.execute(after, standing.statements);
      after = executed.content;
      answers.push(executed.answer);
    }
  }

  async function steps(world: World): Promise<Step<World>[]> {
    const found: Step<World>[] = [];
    const add = (says: string, to: World, isFault = false) =>
      found.push({ says, to, ...(isFault && { isFault }) });
    for (const [i, name] of CONSUMERS.entries()) {
      const run = world.runs[i];
      const change = (next: Run | undefined, others: Partial<World> = {}): World => ({
        ...world,
        ...others,
        runs: world.runs.with(i, next),
      });
      if (run === undefined) {
        const { value } = await called(world.content, read);
        const { ready } = turn(value.filter(({ event }) => indexOf(event.id) >= i));
        if (ready.length > 0) add(`${name} reads D1: ${named(ready)}.`, change({ queue: ready, rows: [] }));
        continue;
      }
      const [next, ...rest] = run.queue;
      if (next) {
        const good = { queue: rest, rows: [...run.rows, rowAfter(next, true)] };
        add(`${name} has delivered ${named([next])}.`, withSuccess(scenario, change(good), next));
        const behind = (one: LoadedDelivery) => one.place?.line === next.place?.line;
        const bad = { queue: rest.filter((one) => !behind(one)), rows: [...run.rows, rowAfter(next, false)] };
        if (world.failures > 0)
          add(
            `${name} has failed to deliver ${named([next])}.`,
            change(bad, { failures: world.failures - 1 }),
          );
      }
      if (run.rows.length > 0) {
        const write = {
          name: `write ${JSON.stringify(run.rows)}`,
          run: (d1: D1Database) => recordOutcomes({ db: d1 }, run.rows, [], NOW),
        };
        const { content } = await called(world.content, write);
        add(`${name} records it.`, change(undefined, { content }));
      }
      if (world.deaths > 0) add(`${name} dies.`, change(undefined, { deaths: world.deaths - 1 }), true);
    }
    return found;
  }

  return {
    initial: {
      content: begun(db, scenario),
      failures: scenario.failures,
      deaths: scenario.deaths,
      runs: CONSUMERS.map(() => undefined),
      succeeded: [],
    },
    steps,
    broken: ({ wrong }) => wrong,
    keyOf: (world) => JSON.stringify(world, (key, value) => (key === "body" ? undefined : value)),
    calmed: (world) => ({ ...world, failures: 0, deaths: 0 }),
    calm: async (world) => (await steps(world))[0] ?? stuck(db, scenario, world),
  };
}

/** One bundle of all events, as a commit inserts it. */
function begun(db: Sqlite, { keys }: OrderScenario): Content {
  const lines = [...Map.groupBy(keys.keys(), (index) => keys[index] ?? "")];
  const header = {
    ...{
      version: 3,
      encoding: "plain",
      tenants: ["acme"],
      types: ["t"],
      events: keys.flatMap(() => [0, 0, 2]),
    },
    lines: { [DESTINATION]: lines.map(([key, indexes]) => [key, 9_000_000_000_000, 0, ...indexes]) },
  };
  const sql = `INSERT INTO bundles (id, accepted_at, count, planned, tokens, plan, header, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
  const plan = JSON.stringify({ [DESTINATION]: [0, keys.length - 1] });
  const values = [BUNDLE, NOW, keys.length, keys.length, "[]", plan, JSON.stringify(header), ""];
  return db.execute(db.empty, [{ sql, values }]).content;
}

/** The deliveries that have not ended, with their places. */
async function load(db: D1Database, { keys }: OrderScenario): Promise<readonly LoadedDelivery[]> {
  const rows = await rowsIn(db, [[BUNDLE, DESTINATION]]);
  const statement = db.prepare(`SELECT ${linePlaces("b", "?1")} AS places FROM bundles b`);
  const stored = await statement.bind(JSON.stringify([DESTINATION])).all<{ places: string | null }>();
  const places = placesFrom(stored.results.map((one) => one.places));
  return keys.flatMap((_, index) => {
    const id = eventAt(BUNDLE, index);
    const row = rows.find(({ eventId }) => eventId === id);
    if (row && row.endedAt !== null) return [];
    const place = places.get(`${id} ${DESTINATION}`);
    return [{ ...deliveryOf(id, row), ...(place && { place }) }];
  });
}

function deliveryOf(id: number, row: DeliveryRow | undefined): LoadedDelivery {
  const event = { id, tenant: "acme", type: "t", acceptedAt: NOW, deliverAt: null, body: undefined };
  const destination = { id: DESTINATION, retry: null } as LoadedDelivery["destination"];
  return { event, destination, row };
}

function rowAfter(delivery: LoadedDelivery, isSuccess: boolean): DeliveryRecord {
  const exchange = { kind: "response", status: isSuccess ? 204 : 503 } as const;
  const attempt = { delivery, exchange, startedAt: NOW, endedAt: NOW + 5 } as Parameters<typeof finish>[0];
  const { row } = attemptDisposition(finish(attempt, retryPolicyOf({ retry: null }), 0), undefined);
  if (!row) throw new Error("An attempt is recorded");
  return row;
}

/** With the success, and with the promise that it breaks. */
function withSuccess({ keys }: OrderScenario, world: World, { event }: LoadedDelivery): World {
  if (world.succeeded.includes(event.id)) return world;
  const index = indexOf(event.id);
  const before = [...keys.keys()].filter((other) => other < index && keys[other] === keys[index]);
  const missing = before.find((other) => !world.succeeded.includes(eventAt(BUNDLE, other)));
  const succeeded = [...world.succeeded, event.id];
  if (missing === undefined) return { ...world, succeeded };
  return { ...world, succeeded, wrong: `Event ${index} has arrived before event ${missing} of its key.` };
}

/** No consumer has anything to do: undefined when all have arrived. */
function stuck(db: Sqlite, { keys }: OrderScenario, world: World): Step<World> | undefined {
  const lines = db.query(world.content, "SELECT * FROM lines").length;
  if (world.succeeded.length === keys.length && lines === 0) return undefined;
  const wrong = lines > 0 ? `${lines} events stand in lines, and none is sent.` : "An event has been lost.";
  return { says: "Nobody has anything to do.", to: { ...world, wrong } };
}

function named(deliveries: readonly LoadedDelivery[]): string {
  return `event ${deliveries.map(({ event }) => indexOf(event.id)).join(" and ")}`;
}
