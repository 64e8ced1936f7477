/**
 * The deliveries that may be attempted, the requests and reports to the gate, and the fate of those that it does not
 * admit.
 */
import { beforeEach, describe, expect, test, vi } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import type { AdmitRequest, AdmitResult } from "../../src/core/admit.ts";
import { newDestinationState } from "../../src/core/destination-state.ts";
import { CONNECTIONS, type Grant, LOOK_UP_MS } from "../../src/core/lease.ts";
import {
  admitDue,
  type Dispatch,
  type Due,
  type Leased,
  type LoadedAdmitted,
  prepare,
  refusedBy,
  triage,
} from "../../src/delivery/admission.ts";
import { connections } from "../../src/delivery/connections.ts";
import { bodyOfText } from "../../src/delivery/http.ts";
import { eventId } from "../../src/ids.ts";
import type { LogLine } from "../../src/log.ts";
import { newMemory } from "../../src/memory.ts";
import type { Services } from "../../src/services.ts";
import type { LoadedDelivery } from "../../src/store/deliveries.ts";
import { START, standingClock } from "../support/clock.ts";
import { testConfig } from "../support/config.ts";
import { DESTINATION, loadedDelivery, storedDestination } from "../support/loaded-delivery.ts";

let clock: ReturnType<typeof standingClock>;
let log: LogLine[];
let sent: string[];
let opens: () => Promise<unknown>;
/** The gate's answers, and the requests and reports to it. */
let gate: { admit: (request: AdmitRequest) => Promise<AdmitResult>; accessToken: () => Promise<unknown> };
let requests: AdmitRequest[];
let settled: unknown[];
/** Until when the gate was told to hold the destination. */
let held: number[];
let background: Promise<unknown>[];
let answers: () => Response;
/** D1's state when a loaded delivery is read again. */
const rereads = vi.fn<(admitted: readonly number[]) => Promise<LoadedAdmitted>>();
let services: Services;

beforeEach(() => {
  clock = standingClock();
  log = [];
  sent = [];
  requests = [];
  [settled, held, background] = [[], [], []];
  answers = () => new Response(null, { status: 204 });
  rereads.mockReset();
  opens = async () => ({ sign: async () => "v1,x" });
  gate = {
    admit: async () => ({ grant: null, refused: null, inFlight: null }),
    accessToken: async () => undefined,
  };
  const stub = {
    admit: (request: AdmitRequest) => {
      requests.push(request);
      return gate.admit(request);
    },
    settle: async (settlement: unknown) => void settled.push(settlement),
    accessToken: () => gate.accessToken(),
    destinationState: async () => newDestinationState(START),
    countTransformFaults: async () => false,
    hold: async (until: number) => {
      held.push(until);
      return [];
    },
  };
  services = {
    ...{ config: testConfig(), now: clock.now, sleep: clock.sleep, random: () => 0.5 },
    log: (line: LogLine) => log.push(line),
    background: (work: Promise<unknown>) => background.push(work),
    memory: newMemory(),
    vault: { open: () => opens(), openText: async () => "a client secret" },
    gates: { idFromName: (name: string) => name, get: () => stub },
    fetch: async (url: string) => {
      sent.push(url);
      return answers();
    },
  } as unknown as Services;
});

const numbered = (...events: number[]) => events.map((id) => loadedDelivery({ event: { id } }));
const eventsOf = (deliveries: readonly { event: { id: number } }[]) =>
  deliveries.map(({ event }) => event.id);

describe("among the deliveries of a message,", () => {
  type Given = NonNullable<Parameters<typeof loadedDelivery>[0]>;

  const due: [string, Given][] = [
    ["one that nothing is known of", {}],
    ["a retry at its time", { row: { nextAttemptAt: START } }],
    ["one whose sender is lost", { row: { state: "in_flight", nextAttemptAt: START - 1 } }],
  ];
  test.each(due)("%s is attempted", async (_, given) => {
    const delivery = loadedDelivery(given);
    expect(await triage(services, [delivery], () => "queue")).toEqual({ due: [delivery], dispositions: [] });
  });

  const early: [string, Given, number][] = [
    ["a retry before its time", { row: { nextAttemptAt: START + 1 } }, START + 1],
    ["one that became due only since it was looked up", { event: { body: undefined } }, START],
    ["one whose event is not due", { event: { deliverAt: START + 7 } }, START + 7],
    [
      "one in flight, also to a deleted destination",
      { row: { state: "in_flight", nextAttemptAt: START + 9 }, destination: { deletedAt: START } },
      START + 9,
    ],
  ];
  test.each(early)("%s comes again", async (_, given, retryAt) => {
    const delivery = loadedDelivery(given);
    expect(await triage(services, [delivery], () => "queue")).toEqual({
      due: [],
      dispositions: [{ delivery, retryAt }],
    });
  });

  const over: [string, Given, string, string][] = [
    [
      "one to a deleted destination",
      { destination: { deletedAt: START } },
      "cancelled",
      "destination_deleted",
    ],
    ["one of an erased event", { event: { isErased: true, body: undefined } }, "cancelled", "erased"],
    ["one past its age limit", { row: { nextAttemptAt: START, giveUpAt: START } }, "dead", "expired"],
    ["one whose stored bytes are damaged", { event: { body: null } }, "dead", "corrupt"],
    ["one to a forbidden address", { destination: { url: "https://10.0.0.1/" } }, "dead", "forbidden_target"],
    [
      "one that is too large for its target",
      {
        destination: { url: "queue:ORDERS" },
        event: { body: new Uint8Array(130_000).fill(120) },
      },
      "dead",
      "too_large",
    ],
  ];
  test.each(over)("%s ends without an attempt", async (_, given, state, reason) => {
    const delivery = loadedDelivery(given);
    const { due, dispositions } = await triage(services, [delivery], () => "queue");
    expect(due).toEqual([]);
    expect(dispositions).toMatchObject([
      { delivery, row: { state, reason, endedAt: START, nextAttemptAt: null } },
    ]);
    expect(dispositions[0]).not.toHaveProperty("retryAt");
    const what = { forbidden_target: "target_forbidden", too_large: "message_too_large" }[reason];
    const line = { what, destination: DESTINATION, event: eventId(128), fault: expect.any(String) };
    expect(log).toEqual(what === undefined ? [] : [line]);
  });

  test.each(["delivered", "waiting"] as const)("one that is %s stays unchanged", async (state) => {
    const delivery = loadedDelivery({ row: { state }, event: { body: undefined } });
    expect(await triage(services, [delivery], () => "queue")).toEqual({
      due: [],
      dispositions: [{ delivery }],
    });
  });

  test("each is judged separately", async () => {
    const body = { body: null };
    const [a, b, c, d] = [
      ...numbered(128),
      loadedDelivery({ event: { id: 129, ...body } }),
      ...numbered(130, 131),
    ];
    const { due, dispositions } = await triage(services, [a, b, c, d].filter(Boolean) as [], () => "drain");
    expect(eventsOf(due)).toEqual([128, 130, 131]);
    expect(eventsOf(dispositions.map(({ delivery }) => delivery))).toEqual([129]);
  });

  test("what is sent of each is made, and its size counts instead of the event's", async () => {
    const by = { kind: "admin_key", key: null, session: null } as const;
    const template = { body: "small", content_type: "text/plain" };
    const transform = { version: 1, after: -1, at: 0, by, template };
    const text = JSON.stringify({ type: "order.paid", timestamp: "2026", data: "x".repeat(130_000) });
    const made = loadedDelivery({
      event: { id: 129, body: bodyOfText(text) },
      destination: { id: "dst_00000000000000000002", url: "queue:ORDERS", transform },
    });
    const { due, dispositions } = await triage(services, [...numbered(128), made], () => "queue");
    expect(due.map(({ transformed }) => transformed?.kind)).toEqual([undefined, "request"]);
    expect(dispositions).toEqual([]);
  });

  describe("whose destination has a transformation,", () => {
    const by = { kind: "admin_key", key: null, session: null } as const;
    const shaping = (text: string, row: Given["row"]) => {
      const template = { body: text, content_type: "text/plain" };
      const transform = { version: 1, after: -1, at: 0, by, template };
      const body = bodyOfText('{"type":"order.paid","timestamp":"2026","data":1}');
      return loadedDelivery({ event: { body }, destination: { transform }, ...(row && { row }) });
    };

    test("one that it leaves out ends as cancelled", async () => {
      const { due, dispositions } = await triage(
        services,
        [shaping("{% cancel %}", undefined)],
        () => "queue",
      );
      expect(due).toEqual([]);
      expect(dispositions).toMatchObject([{ row: { state: "cancelled", reason: "transformed" } }]);
    });

    test("one that it fails for waits for another version", async () => {
      const faulty = (reason: "paused" | "transform_failed") =>
        triage(services, [shaping("{{ data | no }}", { state: "waiting", reason })], () => "drain");
      expect(await faulty("paused")).toMatchObject({
        due: [],
        dispositions: [{ row: { state: "waiting", reason: "transform_failed", nextAttemptAt: null } }],
      });
      const { due, dispositions } = await faulty("transform_failed");
      expect([due.length, dispositions.map(({ row }) => row)]).toEqual([0, [undefined]]);
    });
  });

  test("one whose event has a version is converted, or waits where that cannot be done", async () => {
    const db = memoryD1().bindingFor(async (_, work) => work());
    const body = bodyOfText('{"type":"order.paid","timestamp":"2026","data":1}');
    const delivery = loadedDelivery({
      event: { body, version: { version: 2, since: START } },
      destination: { eventVersions: ["edited"] },
    });
    const { due, dispositions } = await triage({ ...services, db }, [delivery], () => "queue");
    expect(due).toEqual([]);
    expect(dispositions).toMatchObject([{ row: { state: "waiting", reason: "transform_failed" } }]);
  });

  test.each<[string, Given]>([
    ["a message in a template's form", { destination: { template: "slack" } }],
    ["an occurrence for a subscription", { destination: { subscriber: "a", eventCursor: "b" } }],
  ])("one that is sent as %s has it as its payload, whose size counts", async (_, { destination }) => {
    const text = JSON.stringify({
      type: "order.paid",
      timestamp: "2026",
      data: { text: "x".repeat(130_000) },
    });
    const given = { event: { body: bodyOfText(text) }, destination: { url: "queue:ORDERS", ...destination } };
    const { due, dispositions } = await triage(services, [loadedDelivery(given)], () => "queue");
    const payloads = [...due, ...dispositions.map(({ delivery }) => delivery)].map(({ payload }) => payload);
    expect(payloads).toEqual([{ body: expect.any(Uint8Array), contentType: "application/json" }]);
    const isLarge = (payloads[0]?.body.byteLength ?? 0) > 128_000;
    expect(dispositions.map(({ row }) => row?.reason)).toEqual(isLarge ? ["too_large"] : []);
  });

  test("one behind another of its line waits for that, unless that is attempted too", async () => {
    const placed = (id: number, before: number | null) => ({
      ...loadedDelivery({ event: { id } }),
      place: { line: "x", before, holds: false },
    });
    const [head, second, other] = [placed(128, null), placed(129, 128), placed(131, 130)];
    const source = () => "queue" as const;
    expect(await triage(services, [head, second, other], source)).toEqual({
      due: [head, second],
      dispositions: [{ delivery: other }],
    });
    expect(await triage(services, [second], source)).toEqual({
      due: [],
      dispositions: [{ delivery: second }],
    });
  });

  test("the target is checked once for each destination", async () => {
    const parsed = vi.spyOn(URL, "parse").mockClear();
    const [destination, other] = ["https://a.example/", "https://10.0.0.1/"].map((url, i) =>
      storedDestination({ id: `dst_${String(i).padStart(20, "0")}`, url }),
    );
    const deliveries = [destination, destination, other, other, destination].map((to, i) => {
      const [delivery] = numbered(128 + i);
      return { ...delivery, destination: to } as LoadedDelivery;
    });
    const { due, dispositions } = await triage(services, deliveries, () => "queue");
    expect(eventsOf(due)).toEqual([128, 129, 132]);
    expect(dispositions.map(({ row }) => row?.reason)).toEqual(["forbidden_target", "forbidden_target"]);
    expect(parsed.mock.calls.map(([url]) => url)).toEqual(["https://a.example/", "https://10.0.0.1/"]);
  });
});

function grantOf(deliveries: readonly number[], own: Partial<Grant> = {}): AdmitResult {
  const grant = {
    ...{ id: "lease-1", slots: 5, width: 5, deliveries, startWithinMs: 5_000, expiresInMs: 30_000 },
    pace: { firstInMs: 0, everyMs: 0, slackMs: 500 },
    destinationState: newDestinationState(START),
    ...own,
  };
  return { grant, refused: null, inFlight: null };
}

const calm = () => new Promise((resolve) => setTimeout(resolve));

/** Deliveries to be admitted, as a consumer has them that read them `agoMs` ago. */
function dueOf(deliveries: readonly LoadedDelivery[], agoMs = 0, own: Partial<Due> = {}): Due {
  return {
    ...{ stage: "due", destination: storedDestination(), dispositions: [], patienceFor: () => 1_000 },
    request: { lane: "fresh", deliveries: eventsOf(deliveries), startWithinMs: 5_000 },
    source: { kind: "loaded", lookedUpAt: clock.now() - agoMs, deliveries, load: rereads },
    ...own,
  };
}

/** The same as a drain has them, which reads them when they are admitted. */
function waitingDue(
  events: readonly number[],
  load: (ids: readonly number[]) => Promise<LoadedAdmitted>,
): Due {
  return { ...dueOf(numbered(...events)), source: { kind: "waiting", load } };
}

function admitted(events: readonly number[], agoMs = 0, own: Partial<Due> = {}) {
  return admitDue(services, connections(), dueOf(numbered(...events), agoMs, own));
}

/** The same, of deliveries of which some are admitted. */
async function leased(...given: Parameters<typeof admitted>): Promise<Leased> {
  return withLease(await admitted(...given));
}

function withLease(dispatch: Dispatch): Leased {
  if (dispatch.stage !== "leased") throw new Error(`It is ${dispatch.stage}`);
  return dispatch;
}

describe("a batch that its gate admits", () => {
  test("is attempted under a lease, which is requested from the gate with all details", async () => {
    gate.admit = async ({ deliveries }) => {
      clock.pass(40);
      return grantOf(deliveries);
    };
    const { grant, run, left, recoverAt } = await leased([128, 129], 30);
    expect(requests).toStrictEqual([
      {
        ...{ lane: "fresh", deliveries: [128, 129], startWithinMs: 5_000 },
        ...{ connections: CONNECTIONS, lookedUpMsAgo: 30 },
      },
    ]);
    await run.finished;
    expect(run.done).toHaveLength(2);
    expect(sent).toHaveLength(2);
    expect(grant.deliveries).toEqual([128, 129]);
    expect(left).toBe(0);
    expect(recoverAt).toBe(clock.now() + 30_000);
  });

  test("is loaded after the grant by a drain, so that it cannot have been settled meanwhile", async () => {
    gate.admit = async ({ deliveries }) => {
      clock.pass(LOOK_UP_MS + 1);
      return { ...grantOf(deliveries), settled: [{ delivery: 128, msAgo: 0 }] };
    };
    const loaded: (readonly number[])[] = [];
    const ended = [{ delivery: loadedDelivery({ event: { id: 130 } }) }];
    const due = waitingDue([128, 129], async (ids) => {
      loaded.push(ids);
      return { deliveries: numbered(...ids), dispositions: ended, left: 3 };
    });
    const dispatch = await admitDue(services, connections(), due);
    expect(requests[0]?.lookedUpMsAgo).toBe(0);
    expect(loaded).toEqual([[128, 129]]);
    const { result, run, left, dispositions } = withLease(dispatch);
    await run.finished;
    expect(sent).toHaveLength(2);
    expect(result.inFlight).toBeNull();
    expect(left).toBe(3);
    expect(dispositions).toEqual(ended);
  });

  test.each<[string, Partial<AdmitResult>, number]>([
    ["the gate does not know what was settled since", { readAgain: true }, 0],
    ["one of it was settled after the look-up", { settled: [{ delivery: 128, msAgo: 5 }] }, 10],
    ["the answer took longer than the gate remembers", {}, LOOK_UP_MS + 1],
  ])("is reread under its lease, and attempted in the same invocation, if %s", async (_, own, tookMs) => {
    gate.admit = async ({ deliveries }) => {
      clock.pass(tookMs);
      return { ...grantOf(deliveries), ...own };
    };
    const over = { delivery: loadedDelivery({ event: { id: 128 } }) };
    rereads.mockImplementation(async (ids) => {
      return { deliveries: numbered(...ids.filter((id) => id !== 128)), dispositions: [over], left: 0 };
    });
    const { run, dispositions } = await leased([128, 129, 130], 20);
    await run.finished;
    expect(rereads.mock.calls).toEqual([[[128, 129, 130]]]);
    expect(run.done.map(({ attempt }) => attempt.delivery.event.id)).toEqual([129, 130]);
    expect(dispositions).toEqual([over]);
  });

  test("is read once if the gate knows everything that was settled since", async () => {
    gate.admit = async ({ deliveries }) => ({
      ...grantOf(deliveries),
      settled: [{ delivery: 128, msAgo: 50 }],
    });
    const { run } = await leased([128], 20);
    await run.finished;
    expect(rereads).not.toHaveBeenCalled();
    expect(sent).toHaveLength(1);
  });

  test("ends its lease, with nothing waiting, if it cannot be reread", async () => {
    gate.admit = async ({ deliveries }) => ({ ...grantOf(deliveries), readAgain: true });
    rereads.mockRejectedValue(new Error("D1 is away"));
    await expect(admitted([128])).rejects.toThrow("D1 is away");
    expect(settled).toMatchObject([{ lease: "lease-1", signals: [], left: 0 }]);
  });

  test("ends its lease at once, unused, if it cannot be loaded", async () => {
    gate.admit = async ({ deliveries }) => grantOf(deliveries);
    const due = waitingDue([128, 129], () => Promise.reject(new Error("D1 is away")));
    await expect(admitDue(services, connections(), due)).rejects.toThrow("D1 is away");
    expect(settled).toMatchObject([{ lease: "lease-1", signals: [], left: 2 }]);
  });

  describe("in which one follows another of its line", () => {
    const placed = (id: number, before: number | null) => ({
      ...loadedDelivery({ event: { id } }),
      place: { line: "x", before, holds: false },
    });
    const attempted = async (...deliveries: LoadedDelivery[]) => {
      const { run, dispositions } = withLease(await admitDue(services, connections(), dueOf(deliveries)));
      await run.finished;
      const done = run.done.map(({ attempt }) => attempt.delivery.event.id);
      return { done, without: dispositions.map(({ delivery, ...rest }) => [delivery.event.id, rest]) };
    };
    beforeEach(() => {
      gate.admit = async ({ deliveries }) => grantOf(deliveries);
    });

    test.each([
      [204, [128, 129]],
      [500, [128]],
    ])("is attempted in their order as far as they succeed: the first is answered with %d", async (status, done) => {
      answers = () => new Response(null, { status });
      expect((await attempted(placed(129, 128), placed(128, null))).done).toEqual(done);
    });

    test("is attempted without those whose turn has not come", async () => {
      gate.admit = async ({ deliveries }) => grantOf(deliveries.filter((id) => id !== 128));
      const found = await attempted(placed(128, null), placed(129, 128), ...numbered(140));
      expect(found).toEqual({ done: [140], without: [[129, {}]] });
    });
  });

  test("has its gate hold the destination for as long as the receiver says", async () => {
    gate.admit = async ({ deliveries }) => grantOf(deliveries);
    answers = () => new Response(null, { status: 429, headers: { "retry-after": "60" } });
    const { run } = await leased([128]);
    await run.finished;
    await Promise.all(background);
    expect(held).toEqual([clock.now() + 60_000]);
  });

  test("is attempted over connections that all destinations share", async () => {
    gate.admit = async ({ deliveries }) => grantOf(deliveries);
    const shared = connections();
    const ran = vi.spyOn(shared, "run");
    const { run } = withLease(await admitDue(services, shared, dueOf(numbered(128, 129))));
    await run.finished;
    expect(ran.mock.calls.map(([id]) => id)).toEqual([DESTINATION, DESTINATION]);
  });

  test("fails as a whole if an attempt cannot be made, whether it is awaited or not", async () => {
    gate.admit = async ({ deliveries }) => grantOf(deliveries);
    const due = dueOf([loadedDelivery({ event: { id: 128, body: null } })]);
    const { run } = withLease(await admitDue(services, connections(), due));
    await expect(run.enough).rejects.toThrow("must not be attempted");
    await expect(run.finished).rejects.toThrow("must not be attempted");
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on("unhandledRejection", note);
    const unawaited = withLease(await admitDue(services, connections(), due));
    await calm();
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
    expect(unawaited.run.done).toEqual([]);
    expect(sent).toEqual([]);
  });

  test("succeeds the lease before it, over the same connections", async () => {
    gate.admit = async ({ deliveries }) => grantOf(deliveries, { id: `lease-${requests.length}` });
    const { run } = await leased([128]);
    await run.finished;
    const following: unknown[] = [];
    const after = {
      lease: "lease-1",
      run: { ...run, continueWith: (order: unknown) => following.push(order) && run } as Leased["run"],
    };
    const next = await leased([129], 0, { after });
    expect(requests[1]?.succeeds).toBe("lease-1");
    expect(requests[0]).not.toHaveProperty("succeeds");
    expect(next.run).toBe(run);
    expect(following).toMatchObject([{ grant: { id: "lease-2" }, patienceMs: 1_000 }]);
    expect(sent).toHaveLength(1);
  });
});

describe("a batch that its gate does not admit", () => {
  const deliveries = numbered(128, 129, 130, 131);
  const refused = { deliveries: [128, 130], reason: "hold", until: START + 60_000 } as const;
  const inFlight = { deliveries: [129], until: START + 700 };
  const dispositionsOf = ({ dispositions }: Dispatch) =>
    dispositions.map(({ delivery, row, retryAt }) => [
      delivery.event.id,
      row?.reason ?? (retryAt === undefined ? undefined : retryAt - START),
    ]);

  test.each<[string, Partial<AdmitResult>, unknown]>([
    [
      "was refused waits",
      { refused },
      [
        [128, "hold"],
        [130, "hold"],
      ],
    ],
    ["another lease holds comes again", { inFlight }, [[129, 700]]],
    [
      "was refused waits beside what comes again",
      { refused, inFlight },
      [
        [128, "hold"],
        [129, 700],
        [130, "hold"],
      ],
    ],
    ["is neither has no disposition", {}, []],
  ])("what %s", (_, result, expected) => {
    const whole = { grant: null, refused: null, inFlight: null, ...result };
    expect(dispositionsOf(refusedBy(whole, dueOf(deliveries)))).toEqual(expected);
  });

  test("comes after the decisions of triage", () => {
    const decided = { delivery: loadedDelivery({ event: { id: 127 } }), retryAt: START + 1 };
    const due = dueOf(deliveries, 0, { dispositions: [decided] });
    const whole = { grant: null, refused: null, inFlight };
    expect(dispositionsOf(refusedBy(whole, due))).toEqual([
      [127, 1],
      [129, 700],
    ]);
  });

  test("stays unchanged if it waits in D1", () => {
    const due = waitingDue([128, 129], () => Promise.reject(new Error("None is admitted")));
    expect(dispositionsOf(refusedBy({ grant: null, refused, inFlight }, due))).toEqual([]);
  });

  test("is retried within ten seconds, with jitter, when the gate cannot be reached", async () => {
    gate.admit = () => Promise.reject(new Error("No gate, as the test wants it"));
    const dispatch = await admitted([128, 129, 130, 131]);
    expect(dispatch).toMatchObject({ stage: "unreachable", destination: storedDestination() });
    expect(dispositionsOf(dispatch)).toEqual([128, 129, 130, 131].map((id) => [id, 7_500]));
  });

  test("stays unchanged if it waits in D1 and the gate cannot be reached", async () => {
    gate.admit = () => Promise.reject(new Error("No gate, as the test wants it"));
    const due = waitingDue([128], () => Promise.reject(new Error("None is admitted")));
    const dispatch = await admitDue(services, connections(), due);
    expect(dispatch).toMatchObject({ stage: "unreachable", dispositions: [] });
  });

  test("has no run, and nothing is sent", async () => {
    gate.admit = async () => ({ grant: null, refused, inFlight: null });
    expect(await admitted([128, 130])).toMatchObject({ stage: "refused", result: { refused } });
    await calm();
    expect(sent).toEqual([]);
  });
});

describe("a destination that cannot be sent to", () => {
  const until = START + 60_000;

  test("waits for the sweep, without a call of its gate", async () => {
    opens = () => Promise.reject(new Error("Sealed with another key"));
    const refused = { deliveries: [128, 129], reason: "sealed", until };
    const result = { grant: null, inFlight: null, refused };
    expect(await admitted([128, 129])).toMatchObject({
      ...{ stage: "refused", destination: storedDestination(), result },
      dispositions: [{ row: { state: "waiting", reason: "sealed" } }, { row: { reason: "sealed" } }],
    });
    expect(requests).toEqual([]);
    expect(log).toEqual([
      { what: "secret_unreadable", destination: DESTINATION, error: "Error: Sealed with another key" },
    ]);
  });

  test("gives the reason: its kind cannot reach it", async () => {
    const unreachable = storedDestination({ url: "queue:ORDERS" });
    expect(await prepare(services, connections(), unreachable)).toMatchObject({
      ...{ kind: "unready", refusal: { until } },
    });
  });

  const auth = {
    ...{ kind: "oauth2", token_url: "https://a.example/token", client_id: "c", scope: null, audience: null },
    ...{ params: {}, client_auth: "basic", sealed: "x" },
  };

  test.each([
    [90_000, 90_000],
    [5_000, 60_000],
  ])("has no access token for %d ms: it waits for %d, and says why", async (failsMs, waitsMs) => {
    const fault = "answered with 400";
    gate.accessToken = async () => ({
      kind: "failed",
      reason: "token_refused",
      fault,
      until: START + failsMs,
    });
    expect(await prepare(services, connections(), storedDestination({ auth }))).toEqual({
      kind: "unready",
      refusal: { reason: "token_refused", until: START + waitsMs },
      fault: "The token endpoint answered with 400.",
    });
  });

  test("can be sent to with a token", async () => {
    gate.accessToken = async () => ({ kind: "token", sealed: "y", usableUntil: START + 900_000 });
    const prepared = await prepare(services, connections(), storedDestination({ auth }));
    expect(prepared.kind).toBe("ready");
    if (prepared.kind !== "ready") return;
    expect(prepared.sender.credentials.headers()).toEqual({ authorization: "Bearer a client secret" });
  });
});
