/** When the owner of an endpoint is notified of its trouble. */
import { describe, expect, test } from "vitest";
import {
  type EndpointNow,
  type NoticeEvent,
  type NoticeState,
  noticeEvents,
  noticePauseMs,
  noticeStep,
} from "../../src/core/notices.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = 1_000 * HOUR;

const ALL = { on: [...noticeEvents], open_after_minutes: 10 };
const calm: NoticeState = { notified: [], openedAt: null, deadAt: null, sentAt: 0 };
const taking: EndpointNow = { kind: "taking" };
const open: EndpointNow = { kind: "open" };
const gone: EndpointNow = { kind: "disabled", reason: "gone" };

const step = (state: Partial<NoticeState>, endpoint: EndpointNow, channel: Partial<typeof ALL> = {}) =>
  noticeStep({ ...ALL, ...channel }, { ...calm, ...state }, endpoint, NOW);
const notified = (made: ReturnType<typeof step>) => (made.kind === "send" ? made.events : made.kind);

describe("notified at once, if nothing was notified within the hour, is", () => {
  test.each<[string, Partial<NoticeState>, EndpointNow, readonly NoticeEvent[]]>([
    ["a dead delivery", { deadAt: NOW }, taking, ["dead"]],
    ["a circuit that has been open long enough", { openedAt: NOW - 10 * MINUTE }, open, ["circuit_open"]],
    ["an endpoint disabled by its failures", {}, gone, ["disabled"]],
    ["everything at once, the worst first", { openedAt: 1, deadAt: NOW }, open, ["circuit_open", "dead"]],
    ["the end of an outage that was notified", { notified: ["circuit_open"] }, taking, ["recovered"]],
    [
      "an end with what happened meanwhile",
      { notified: ["disabled"], deadAt: NOW },
      taking,
      ["recovered", "dead"],
    ],
    ["what comes on top", { notified: ["circuit_open"], openedAt: 1 }, gone, ["disabled"]],
  ])("%s", (_, state, endpoint, events) => {
    expect(notified(step(state, endpoint))).toEqual(events);
    const quiet = step({ ...state, sentAt: NOW - 1 }, endpoint);
    expect(quiet).toMatchObject({ kind: "wait", until: NOW - 1 + HOUR });
  });
});

describe("nothing is notified", () => {
  test.each<[string, Partial<NoticeState>, EndpointNow]>([
    ["of a circuit that has just opened", { openedAt: NOW - 9 * MINUTE }, open],
    [
      "of trouble that was notified before",
      { notified: ["circuit_open", "dead"], openedAt: 1, deadAt: NOW },
      open,
    ],
    ["of a pause by hand", { openedAt: 1 }, { kind: "paused" }],
    ["of an end where only dead deliveries were notified", { notified: ["dead"], deadAt: NOW }, taking],
    ["of an end while the circuit is open", { notified: ["disabled"] }, open],
  ])("%s", (_, state, endpoint) => {
    expect(step(state, endpoint).kind).not.toBe("send");
  });

  test("about events that the channel does not want", () => {
    expect(notified(step({ deadAt: NOW }, gone, { on: ["circuit_open"] }))).toBe("wait");
    expect(notified(step({ notified: ["disabled"] }, taking, { on: ["disabled"] }))).toBe("forget");
  });
});

test("an endpoint is forgotten when nothing is left to notify, and not before the hour is over", () => {
  expect(notified(step({}, taking))).toBe("forget");
  expect(step({ sentAt: NOW - 1 }, taking)).toMatchObject({ kind: "wait", until: NOW - 1 + HOUR });
  expect(notified(step({ notified: ["circuit_open"] }, { kind: "paused" }))).toBe("forget");
  expect(notified(step({ notified: ["dead"], deadAt: NOW - HOUR }, taking))).toBe("forget");
});

test("a circuit is checked again when it has been open for the required time, even if its beginning is unknown", () => {
  expect(step({ openedAt: NOW - MINUTE }, open)).toMatchObject({ kind: "wait", until: NOW + 9 * MINUTE });
  expect(step({}, open)).toMatchObject({ kind: "wait", until: NOW + 10 * MINUTE, after: { openedAt: NOW } });
});

test("a wrong clock delays notices by an hour at most", () => {
  expect(step({ sentAt: NOW + 100 * HOUR }, gone)).toMatchObject({ kind: "wait", until: NOW + HOUR });
});

test("a channel that refuses is tried again later and later, at most once an hour", () => {
  expect([0, 1, 2, 5, 6, 99].map((failures) => noticePauseMs(failures) / MINUTE)).toEqual([
    1, 2, 4, 32, 60, 60,
  ]);
});

test("in random histories there is at most one notice an hour, and an end is notified only after an outage", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seededRandom(seed);
    const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T;
    const channel = { on: noticeEvents.filter(() => random() < 0.8), open_after_minutes: pick([1, 10, 90]) };
    let state = calm;
    let now = NOW;
    let outage = false;
    for (let i = 0; i < 60; i++) {
      now += Math.floor(random() * 20) * MINUTE;
      if (random() < 0.2) state = { ...state, deadAt: now };
      if (random() < 0.2) state = { ...state, openedAt: random() < 0.5 ? null : now };
      const made = noticeStep(channel, state, pick([taking, open, gone, { kind: "paused" }]), now);
      if (made.kind === "forget") {
        expect(now - state.sentAt).toBeGreaterThanOrEqual(HOUR);
        state = calm;
        outage = false;
        continue;
      }
      if (made.kind === "wait") {
        expect(made.until).toBeGreaterThan(now);
        expect(made.until).toBeLessThanOrEqual(now + HOUR);
        state = { ...state, ...made.after };
        continue;
      }
      expect(now - state.sentAt).toBeGreaterThanOrEqual(HOUR);
      expect(channel.on).toEqual(expect.arrayContaining([...made.events]));
      if (made.events.includes("recovered")) expect(outage).toBe(true);
      outage = made.after.notified.some((one) => one !== "dead");
      state = { ...made.after, sentAt: now };
    }
  }
});
