import { describe, expect, it } from "vitest";
import { afterDigestSent, digestAfter, emptyDigest } from "../../src/core/alerts.ts";

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

describe("a dead-letter digest", () => {
  const first = digestAfter(emptyDigest, 2, NOW);

  it("is scheduled with the first dead delivery, and not again while it is scheduled", () => {
    expect(first).toEqual({ deadLetterDigest: { dead: 2, since: NOW, sentAt: NOW }, isDue: true });
    expect(digestAfter(first.deadLetterDigest, 500, NOW + MINUTE)).toEqual({
      deadLetterDigest: { dead: 502, since: NOW, sentAt: NOW },
      isDue: false,
    });
    expect(digestAfter(first.deadLetterDigest, 1, NOW).isDue).toBe(false);
  });

  it("is scheduled with the first dead delivery also when the clock is at its beginning", () => {
    expect(digestAfter(emptyDigest, 1, 1).isDue).toBe(true);
  });

  it("is scheduled again when it was not sent", () => {
    const later = NOW + 3 * MINUTE;
    expect(digestAfter(first.deadLetterDigest, 1, later - 1).isDue).toBe(false);
    expect(digestAfter(first.deadLetterDigest, 1, later)).toEqual({
      deadLetterDigest: { dead: 3, since: NOW, sentAt: later },
      isDue: true,
    });
  });

  it("is scheduled again when a clock that was ahead says that it will be sent later", () => {
    const ahead = { dead: 2, since: NOW, sentAt: NOW + 1 };
    expect(digestAfter(ahead, 1, NOW)).toEqual({
      deadLetterDigest: { dead: 3, since: NOW, sentAt: NOW },
      isDue: true,
    });
  });

  it("is not scheduled if no delivery is dead", () => {
    expect(digestAfter(emptyDigest, 0, NOW)).toEqual({ deadLetterDigest: emptyDigest, isDue: false });
  });

  it("that was sent is over", () => {
    expect(afterDigestSent(first.deadLetterDigest, first.deadLetterDigest, NOW + MINUTE)).toEqual({
      deadLetterDigest: emptyDigest,
      isDue: false,
    });
  });

  it("of deliveries that died while one was being sent is a separate one", () => {
    const more = digestAfter(first.deadLetterDigest, 5, NOW + MINUTE).deadLetterDigest;
    const left = { dead: 5, since: NOW + MINUTE, sentAt: NOW + MINUTE };
    expect(afterDigestSent(more, first.deadLetterDigest, NOW + MINUTE)).toEqual({
      deadLetterDigest: left,
      isDue: true,
    });
  });

  it("is sent once", () => {
    const next = digestAfter(emptyDigest, 1, NOW + MINUTE).deadLetterDigest;
    expect(afterDigestSent(next, first.deadLetterDigest, NOW + MINUTE)).toEqual({
      deadLetterDigest: next,
      isDue: false,
    });
  });
});
