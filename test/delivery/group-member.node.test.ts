/** Members of a group: what a Worker carries between a destination's gate and the group, and what it does without either. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import type { AdmitRequest } from "../../src/core/admit.ts";
import { newDestinationState } from "../../src/core/destination-state.ts";
import type { Exchange } from "../../src/core/retry/classify.ts";
import { learnedState } from "../../src/delivery/group.ts";
import {
  admitMember,
  learnedMemberState,
  type Member,
  reportLimited,
  settleMember,
} from "../../src/delivery/group-member.ts";
import type { LogLine } from "../../src/log.ts";
import { newMemory } from "../../src/memory.ts";
import type { Services } from "../../src/services.ts";
import { gateSettingsOf } from "../../src/store/destination.ts";
import { START, standingClock } from "../support/clock.ts";
import { testConfig } from "../support/config.ts";
import { DESTINATION, storedDestination } from "../support/loaded-delivery.ts";

type Answers = Record<string, (...given: never[]) => unknown>;

let clock: ReturnType<typeof standingClock>;
let log: LogLine[];
/** Calls of the gate and of the group, in their order. */
let calls: { object: string; method: string; given: unknown[] }[];
let gate: Answers;
let group: Answers;
let isD1Away: boolean;
let reads: number;
let background: Promise<unknown>[];
let services: Services;

beforeEach(() => {
  clock = standingClock();
  [log, calls, background] = [[], [], []];
  [gate, group] = [{}, {}];
  [isD1Away, reads] = [false, 0];
  const d1 = memoryD1();
  const insert =
    "INSERT INTO groups (name, max_concurrency, created_at, updated_at) VALUES ('billing', 3, 0, 0)";
  d1.direct.prepare(insert).run();
  const db = d1.bindingFor(async (_, work) => {
    reads += 1;
    if (isD1Away) throw new Error("D1 is away");
    return work();
  });
  const objects = (object: string, answers: () => Answers) => {
    const methods = {
      get:
        (_: object, method: string) =>
        async (...given: never[]) => {
          calls.push({ object, method, given });
          return answers()[method]?.(...given);
        },
    };
    return { idFromName: (name: string) => name, get: () => new Proxy({}, methods) };
  };
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
    gates: objects("gate", () => gate),
    groups: objects("group", () => group),
  } as unknown as Services;
});

const member = (name = "billing"): Member => ({ destination: storedDestination(), group: name });
const settings = gateSettingsOf(storedDestination());
const made = () => calls.map(({ object, method }) => `${object} ${method}`);
const given = (object: string, method: string) =>
  calls.flatMap((call) => (call.object === object && call.method === method ? [call.given] : []));
const reports = () => given("group", "report").map(([report]) => report as Record<string, unknown>);

const NO_REPORT = {
  ...{ member: DESTINATION, tenant: "acme", isOneHost: false },
  ...{ ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0, waitMs: 0 },
};

describe("a lease for a member", () => {
  const request: AdmitRequest = {
    ...{ lane: "fresh", deliveries: [128], connections: 5, startWithinMs: 5_000, lookedUpMsAgo: 0 },
  };
  const NONE = { grant: null, refused: null, inFlight: null };
  const ends = [{ block: "b-0", slots: 0, unused: 2 }];
  const needs = { askedAt: START - 7, slots: 4, sends: 9, leaseMs: 30_000, ends, succeeded: 6 };
  const block = { kind: "block", at: START, block: { id: "b-1", sends: 9 } };
  const refusal = { kind: "refused", at: START, refusal: {} };

  /** The gate needs a block, and answers so when it has the group's answer. */
  const needing = (second: object = NONE, answer: unknown = block) => {
    gate.admit = () => (given("gate", "admit").length === 1 ? { ...NONE, needs } : second);
    group.deal = () => answer;
  };
  const admitted = (name?: string, agoMs = 40) => admitMember(services, member(name), request, START - agoMs);

  test("costs one call where its gate needs nothing of the group", async () => {
    gate.admit = () => NONE;
    expect(await admitted()).toEqual(NONE);
    expect(calls).toEqual([
      {
        ...{ object: "gate", method: "admit" },
        given: [{ ...request, lookedUpMsAgo: 40, group: { name: "billing" } }, settings],
      },
    ]);
    expect(reads).toBe(0);
  });

  test("is requested again with the group's answer to the gate's needs", async () => {
    const second = { ...NONE, block: "b-1" };
    needing(second);
    group.deal = () => {
      clock.pass(25);
      return block;
    };
    expect(await admitted()).toEqual(second);
    expect(made()).toEqual(["gate admit", "group deal", "gate admit"]);
    const asked = { slots: 4, sends: 9, leaseMs: 30_000, report: { ...NO_REPORT, ends, succeeded: 6 } };
    expect(given("group", "deal")).toEqual([[asked, expect.objectContaining({ maxConcurrency: 3 })]]);
    expect(given("gate", "admit")[1]).toEqual([
      {
        ...request,
        lookedUpMsAgo: 65,
        group: { name: "billing", answered: { answer: block, askedAt: START - 7 } },
      },
      settings,
    ]);
    expect(background).toEqual([]);
  });

  test("says whether all members send to one host", async () => {
    needing();
    await admitted("host:a.example");
    expect(given("group", "deal")[0]?.[0]).toMatchObject({ report: { isOneHost: true } });
  });

  test("gives a block back that its gate does not need any more", async () => {
    needing({ ...NONE, unused: true });
    await admitted();
    await Promise.all(background);
    expect(reports()).toEqual([{ ...NO_REPORT, ends: [{ block: "b-1", slots: 0, unused: 9 }] }]);
  });

  test("gives nothing back where it got no block", async () => {
    needing({ ...NONE, unused: true }, refusal);
    await admitted();
    expect(given("gate", "admit")).toHaveLength(2);
    expect(background).toEqual([]);
  });

  test.each([
    ["its gate", "gate"],
    ["the group", "group"],
  ])("is not to be had where %s cannot be reached", async (_, object) => {
    needing();
    const away = () => {
      throw new Error("Away, as the test wants it");
    };
    if (object === "gate") gate.admit = away;
    else group.deal = away;
    expect(await admitted()).toBeUndefined();
    expect(given("gate", "admit")).toHaveLength(1);
  });

  test("reads the group's limits once in ten seconds, and is not to be had where they cannot be read", async () => {
    needing();
    const again = () => {
      calls.splice(0);
      return admitted();
    };
    await again();
    clock.pass(9_999);
    await again();
    expect(reads).toBe(1);
    isD1Away = true;
    await again();
    clock.pass(1);
    await expect(again()).rejects.toThrow(/^Failed query: .* from "groups"/);
    expect(reads).toBe(2);
    expect(made()).toEqual(["gate admit"]);
  });
});

const answered = (status: number, retryAfter?: string): Exchange => ({
  ...{ kind: "response", status },
  ...(retryAfter !== undefined && { retryAfter }),
});
const endedWith = (...exchanges: Exchange[]) =>
  exchanges.map((exchange) => ({ exchange, endedAt: clock.now() }));

describe("a settlement of a member's lease", () => {
  const settlement = { lease: "lease-1", signals: [], left: 0 };
  const settled = (exchanges: readonly Exchange[], block?: string) =>
    settleMember(services, member(), settlement, { attempts: endedWith(...exchanges), block });
  const settlements = () => given("gate", "settle").map(([request]) => request as Record<string, unknown>);

  test("costs one call where nothing concerns the whole receiver", async () => {
    await settled([answered(204), answered(404)], "b-1");
    expect(made()).toEqual(["gate settle"]);
    expect(settlements()).toEqual([{ ...settlement, sentAt: START }]);
    expect(given("gate", "settle")[0]?.[1]).toEqual(settings);
  });

  test.each([
    [true, { counted: true }],
    [false, {}],
  ])("comes after the report of its failures, which count in one circuit (in the group's: %s)", async (isCounted, own) => {
    group.report = () => isCounted;
    await settled([answered(204), answered(500), answered(503), { kind: "timeout" }], "b-1");
    expect(made()).toEqual(["group report", "gate settle"]);
    expect(reports()).toEqual([{ ...NO_REPORT, failed: 3, block: "b-1" }]);
    expect(settlements()).toEqual([{ ...settlement, ...own, sentAt: START }]);
  });

  test("names no block where the lease was of none", async () => {
    await settled([answered(500)]);
    expect(reports()).toEqual([{ ...NO_REPORT, failed: 1 }]);
  });

  test.each<[Exchange, number]>([
    [{ kind: "refused" }, 1],
    [{ kind: "dns" }, 1],
    [{ kind: "tls" }, 1],
    [{ kind: "refused", status: 521 }, 0],
    [{ kind: "dns", status: 530 }, 0],
    [{ kind: "tls", status: 525 }, 0],
    [{ kind: "timeout" }, 0],
    [answered(500), 0],
  ])("reports whether its receiver could be reached: after %j could not, %d times", async (exchange, unreached) => {
    await settled([exchange]);
    expect(reports()).toEqual([{ ...NO_REPORT, failed: 1, unreached }]);
  });

  test("reports refusals, and the longest time that the receiver wants to be left alone", async () => {
    await settled([answered(429, "5"), answered(429, "60"), answered(429), answered(503, "900")]);
    expect(reports()).toEqual([{ ...NO_REPORT, failed: 1, limited: 3, waitMs: 60_000 }]);
  });

  test("reports refusals that say no time", async () => {
    await settled([answered(429)]);
    expect(reports()).toEqual([{ ...NO_REPORT, limited: 1 }]);
  });

  test("counts a receiver's time from the end of the attempt", async () => {
    const attempts = endedWith(answered(429, "60"));
    clock.pass(15_000);
    await settleMember(services, member(), settlement, { attempts, block: undefined });
    expect(reports()).toMatchObject([{ waitMs: 45_000 }]);
  });

  test.each([
    [[answered(204)], { block: "b-1" }],
    [[answered(429)], { block: "b-1" }],
    [[answered(204), answered(500)], {}],
  ])("has blocks that are over reported, with its own where nothing has failed under that (%j)", async (exchanges, own) => {
    const over = { ends: [{ block: "b-1", slots: 0, unused: 4 }], succeeded: 8 };
    gate.settle = () => ({ events: [], over });
    await settled(exchanges, "b-1");
    await Promise.all(background);
    expect(reports().at(-1)).toEqual({ ...NO_REPORT, ...over, ...own });
    expect(made().slice(-2)).toEqual(["gate settle", "group report"]);
  });

  test("has blocks that are over reported without its own where it is of none", async () => {
    const over = { ends: [], succeeded: 8 };
    gate.settle = () => ({ events: [], over });
    await settled([]);
    await Promise.all(background);
    expect(reports()).toEqual([{ ...NO_REPORT, ...over }]);
  });

  test.each<[string, () => void]>([
    [
      "the group cannot be reached",
      () => Object.assign(group, { report: () => Promise.reject(new Error("Away")) }),
    ],
    [
      "the group's limits cannot be read",
      () => {
        isD1Away = true;
      },
    ],
  ])("is made where %s, and its failures count in the member's circuit", async (_, trouble) => {
    trouble();
    await settled([answered(500)]);
    expect(settlements()).toEqual([{ ...settlement, sentAt: START }]);
    expect(log).toMatchObject([{ what: "group_unreachable", group: "billing", error: expect.any(String) }]);
  });
});

describe("a refusal of one attempt", () => {
  test("is reported at once where it says a time", async () => {
    const [attempt] = endedWith(answered(429, "30"));
    if (attempt) await reportLimited(services, member(), attempt);
    expect(reports()).toEqual([{ ...NO_REPORT, limited: 1, waitMs: 30_000 }]);
  });

  test("is left to the settlement where it says none", async () => {
    const [attempt] = endedWith(answered(429));
    if (attempt) await reportLimited(services, member(), attempt);
    expect(calls).toEqual([]);
  });
});

describe("what is learned of a member's receiver", () => {
  const state = { ...newDestinationState(START), heldUntil: START + 10 };
  const learned = (standing?: object) => {
    gate.destinationState = () => state;
    group.standing = () => {
      if (!standing) throw new Error("Away, as the test wants it");
      return { at: START, heldUntil: 0, openUntil: 0, trips: 0, ...standing };
    };
    return learnedMemberState(services, member());
  };

  test.each([
    [20, 20],
    [5, 10],
  ])("is the longer of both holds: the group's for %d ms", async (forMs, heldMs) => {
    expect(await learned({ heldUntil: START + forMs })).toEqual({ ...state, heldUntil: START + heldMs });
  });

  test("has the circuit of the group while that is open, and then its own", async () => {
    const open = { kind: "open", since: START, until: START + 1, trips: 3 };
    expect(await learned({ openUntil: START + 1, trips: 3 })).toEqual({ ...state, circuit: open });
    expect(await learned({ openUntil: START, trips: 3 })).toEqual(state);
  });

  test("is its own where the group cannot be reached, and nothing where its gate cannot", async () => {
    expect(await learned()).toEqual(state);
    gate.destinationState = () => Promise.reject(new Error("Away"));
    group.standing = () => ({ at: START, heldUntil: 0, openUntil: 0, trips: 0 });
    expect(await learnedMemberState(services, member())).toBeUndefined();
  });

  test.each([
    ["behind", -10_000],
    ["ahead", 10_000],
  ])("ends no earlier for a Worker whose clock is %s of the others", async (_, skewMs) => {
    const others = START - skewMs;
    const circuit = { kind: "open", since: others, until: others + 3_000, trips: 1 };
    gate.destinationState = () => ({ ...state, circuit, heldUntil: others + 2_000, at: others });
    const own = { heldUntil: START + 2_000, circuit: { kind: "open", until: START + 3_000 } };
    expect(await learnedState(services, storedDestination())).toMatchObject(own);
    group.standing = () => ({ at: others, heldUntil: others + 5_000, openUntil: others + 7_000, trips: 2 });
    const shared = { heldUntil: START + 5_000, circuit: { kind: "open", until: START + 7_000, trips: 2 } };
    expect(await learnedMemberState(services, member())).toMatchObject(shared);
  });
});

test("what is learned of a receiver is as its gate says where clocks agree, or the gate is of 0.3.0", async () => {
  const state = { ...newDestinationState(START), heldUntil: START + 10 };
  for (const at of [START, undefined]) {
    gate.destinationState = () => ({ ...state, ...(at !== undefined && { at }) });
    expect(await learnedState(services, storedDestination())).toEqual(state);
  }
  gate.destinationState = () => {
    clock.pass(40);
    return { ...state, at: START + 20 };
  };
  expect(await learnedState(services, storedDestination())).toEqual(state);
});
