import { expect, it } from "vitest";
import { summaryOf } from "../../../../src/pages/dashboard/simulator/schedule-chart.tsx";

const attempt = (at: number) => ({ at, from: at, to: at });
const of = (...ats: number[]) =>
  summaryOf(
    { giveUpAfterMs: 3_600_000 } as never,
    { attempts: ats.map(attempt), ends: "exhausted" } as never,
  );

it("a schedule's summary names a single attempt, or the time of the last of several", () => {
  expect(of(0)).toBe("Gives up after 1 attempt: nothing is retried.");
  expect(of(0, 60_000)).toBe(
    "Gives up after 2 attempts, about 1 min after the first, and after 1 h at the latest.",
  );
});
