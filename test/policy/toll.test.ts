import { describe, expect, it } from "vitest";
import { noToll, tollAfter, tollPaid } from "../../src/policy/toll.ts";

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

describe("a toll", () => {
  const first = tollAfter(noToll, 2, NOW);

  it("sends for somebody with the first of the dead, and not again while they are on their way", () => {
    expect(first).toEqual({ toll: { dead: 2, since: NOW, sentAt: NOW }, isDue: true });
    expect(tollAfter(first.toll, 500, NOW + MINUTE)).toEqual({
      toll: { dead: 502, since: NOW, sentAt: NOW },
      isDue: false,
    });
  });

  it("sends for somebody else when nobody has come", () => {
    const later = NOW + 3 * MINUTE;
    expect(tollAfter(first.toll, 1, later - 1).isDue).toBe(false);
    expect(tollAfter(first.toll, 1, later)).toEqual({
      toll: { dead: 3, since: NOW, sentAt: later },
      isDue: true,
    });
  });

  it("is nothing where nobody has died", () => {
    expect(tollAfter(noToll, 0, NOW)).toEqual({ toll: noToll, isDue: false });
  });

  it("that is paid is none", () => {
    expect(tollPaid(first.toll, first.toll, NOW + MINUTE)).toEqual({ toll: noToll, isDue: false });
  });

  it("of those who have died while it was paid is one of its own", () => {
    const more = tollAfter(first.toll, 5, NOW + MINUTE).toll;
    const left = { dead: 5, since: NOW + MINUTE, sentAt: NOW + MINUTE };
    expect(tollPaid(more, first.toll, NOW + MINUTE)).toEqual({ toll: left, isDue: true });
  });

  it("is paid once", () => {
    const next = tollAfter(noToll, 1, NOW + MINUTE).toll;
    expect(tollPaid(next, first.toll, NOW + MINUTE)).toEqual({ toll: next, isDue: false });
  });
});
