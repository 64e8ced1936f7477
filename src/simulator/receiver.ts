/**
 * Receivers, and how they break.
 *
 * A server has so many slots, each busy with one request for its service time; other requests queue. A queue longer
 * than its strain makes every request slower. One longer than its bound brings the server down: every request in it
 * fails, and so does every other until the server has started again. That is a second outage.
 */
import type { Exchange } from "../core/retry/classify.ts";
import type { ServerShape, Trouble } from "./scenario.ts";
import type { VirtualTime } from "./virtual-time.ts";

export type Receiver = Readonly<{
  take: (answer: (exchange: Exchange) => void) => void;
  /** How often it broke down under load. */
  breakdowns: () => number;
}>;

const REFUSAL_MS = 5;
const UNAVAILABLE: Exchange = { kind: "response", status: 503 };
const OK: Exchange = { kind: "response", status: 200 };

type Answer = (exchange: Exchange) => void;

export function serverReceiver(
  engine: VirtualTime,
  shape: ServerShape,
  troubleAt: (now: number) => Trouble,
): Receiver {
  const inService = new Set<Answer>();
  let queue: Answer[] = [];
  let next = 0;
  let downUntil = 0;
  let breakdowns = 0;
  let window = { second: 0, taken: 0 };

  const queued = () => queue.length - next;
  const later = (answer: Answer, exchange: Exchange) => engine.after(REFUSAL_MS, () => answer(exchange));

  function take(answer: Answer): void {
    const trouble = troubleAt(engine.now());
    if (trouble.kind === "hanging") return;
    if (trouble.kind === "down" || engine.now() < downUntil) later(answer, UNAVAILABLE);
    else if (trouble.kind === "refusing") later(answer, { kind: "response", status: trouble.status });
    else if (isTooMany()) later(answer, tooManyFor(shape));
    else enter(answer);
  }

  function enter(answer: Answer): void {
    queue.push(answer);
    if (inService.size < shape.slots) serveNext();
    else if (queued() > shape.bound) breakDown();
  }

  function isTooMany(): boolean {
    const second = Math.floor(engine.now() / 1000);
    window = second === window.second ? { second, taken: window.taken + 1 } : { second, taken: 1 };
    return shape.perSecond !== undefined && window.taken > shape.perSecond;
  }

  function serveNext(): void {
    const answer = queue[next];
    if (!answer) return;
    next += 1;
    if (next > 1000) {
      queue = queue.slice(next);
      next = 0;
    }
    inService.add(answer);
    engine.after(serviceMs(), () => finish(answer));
  }

  function serviceMs(): number {
    const trouble = troubleAt(engine.now());
    const slowness = trouble.kind === "slow" ? trouble.factor : 1;
    return shape.serviceMs * slowness * Math.max(1, queued() / shape.strain);
  }

  /** What was in service when the server went down has failed already. */
  function finish(answer: Answer): void {
    if (!inService.delete(answer)) return;
    const trouble = troubleAt(engine.now());
    const fails = trouble.kind === "down" || (trouble.kind === "erratic" && engine.random() < trouble.share);
    answer(fails ? UNAVAILABLE : OK);
    serveNext();
  }

  function breakDown(): void {
    breakdowns += 1;
    downUntil = engine.now() + shape.restartMs;
    for (const answer of [...inService, ...queue.slice(next)]) later(answer, UNAVAILABLE);
    inService.clear();
    queue = [];
    next = 0;
  }

  return { take, breakdowns: () => breakdowns };
}

function tooManyFor({ retryAfterS }: ServerShape): Exchange {
  return {
    kind: "response",
    status: 429,
    ...(retryAfterS !== undefined && { retryAfter: `${retryAfterS}` }),
  };
}

/** Requests a second that it can serve. */
export function capacityOf({ slots, serviceMs, perSecond }: ServerShape): number {
  return Math.min((slots * 1000) / serviceMs, perSecond ?? Number.POSITIVE_INFINITY);
}
