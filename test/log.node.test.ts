/** An invocation's log is bounded, and the number of omitted lines is logged too. */
import { expect, test } from "vitest";
import { boundedLog, type LogLine } from "../src/log.ts";

/** The platform's limit for all lines of an invocation, with the request and its headers. */
const PLATFORM_BYTES = 256_000;

function world() {
  const clock = { at: 0 };
  const texts: string[] = [];
  const { log, logOmitted } = boundedLog(
    () => clock.at,
    (text) => void texts.push(text),
  );
  const bytes = () => texts.reduce((sum, text) => sum + new TextEncoder().encode(text).byteLength + 1, 0);
  const lines = () => texts.map((text) => JSON.parse(text) as LogLine);
  return { clock, log, logOmitted, bytes, lines };
}

/** The line of a failed attempt with everything as long as it may be. */
const attempt = (i: number): LogLine => ({
  what: "attempt",
  event: `evt_${"0".repeat(11)}${i}`,
  destination: `dst_${"d".repeat(20)}`,
  delivery: `dlv_${"0".repeat(11)}_${"d".repeat(20)}`,
  type: "é".repeat(128),
  tenant: "t".repeat(64),
  attempt: 1,
  error: "connection_lost",
  fault: "x".repeat(200),
  latency_ms: 25_000,
  late_ms: 100_000,
  age_ms: 1_000_000_000,
  state: "retrying",
  reason: "connection_lost",
  next_attempt_at: 2_000_000_000_000,
});

test("the lines of a thousand failed attempts, with an invocation's other lines, fit into the platform's limit", () => {
  const { log, logOmitted, bytes, lines } = world();
  for (let i = 0; i < 1_000; i++) log(attempt(i));
  for (let i = 0; i < 100; i++) log({ what: "lease", destination: `dst_${i}`, failed: 10, left: 90 });
  log({ what: "batch_failed", messages: 10, error: "D1_ERROR" });
  logOmitted();
  const attempts = lines().filter(({ what }) => what === "attempt").length;
  expect(attempts).toBeGreaterThan(150);
  expect(lines().filter(({ what }) => what === "lease")).toHaveLength(100);
  expect(lines().slice(-2)).toEqual([
    { what: "batch_failed", messages: 10, error: "D1_ERROR" },
    { what: "lines_omitted", lines: 1_000 - attempts },
  ]);
  expect(bytes()).toBeLessThan(0.8 * PLATFORM_BYTES);
});

test("no number of lines of any kind exceeds the platform's limit", () => {
  const { log, logOmitted, bytes, lines } = world();
  for (let i = 0; i < 10_000; i++)
    log({ what: "gate_unreachable", destination: "d".repeat(24), error: "x".repeat(200) });
  for (let end = 0; end < 100; end++) logOmitted();
  expect(bytes()).toBeLessThan(0.8 * PLATFORM_BYTES);
  expect(lines().at(-1)).toEqual({ what: "lines_omitted", lines: 10_000 - lines().length + 1 });
});

test("the number of omitted lines is logged once until more are omitted", () => {
  const { log, logOmitted, lines } = world();
  logOmitted();
  expect(lines()).toEqual([]);
  for (let i = 0; i < 2_000; i++) log(attempt(i));
  logOmitted();
  logOmitted();
  expect(lines().filter(({ what }) => what === "lines_omitted")).toHaveLength(1);
  log(attempt(2_000));
  logOmitted();
  const [first, second, ...others] = lines().filter(({ what }) => what === "lines_omitted");
  expect(others).toEqual([]);
  expect(Number(second?.lines)).toBe(Number(first?.lines) + 1);
});

test("a long-lived object logs again as time passes", () => {
  const { clock, log, lines } = world();
  for (let i = 0; i < 2_000; i++) log(attempt(i));
  const before = lines().length;
  clock.at += 60_000;
  for (let i = 0; i < 2_000; i++) log(attempt(i));
  expect(lines().length).toBeGreaterThan(before + 20);
});

test("texts of any length are cut in a line", () => {
  const { log, lines } = world();
  log({ what: "delivery_unknown", destination: "dst_ ".repeat(1_000) });
  expect(String(lines()[0]?.destination)).toHaveLength(501);
});
