/**
 * Receivers, and how they break.
 *
 * A server has a number of slots, each busy with one request for its service time; other requests queue. A queue longer
 * than its strain makes every request slower. One longer than its bound brings the server down: every request in it
 * fails, and so does every other until the server has started again. That is a second outage.
 */
import type { Exchange } from "../core/retry/classify.ts";
import type { ServerShape, Trouble } from "./scenario.ts";
import type { VirtualTime } from "./virtual-time.ts";

const REFUSAL_MS = 5;
const UNAVAILABLE: Exchange = { kind: "response", status: 503 };
const OK: Exchange = { kind: "response", status: 200 };

type Answer = (exchange: Exchange) => void;

export type Receiver = Readonly<{
  take: (answer: Answer) => void;
  /** How often it broke down under load. */
  breakdowns: () => number;
}>;

export function openReceiver(
  engine: VirtualTime,
  shape: ServerShape,
  troubleAt: (now: number) => Trouble,
): Receiver {
  const inService = new Set<Answer>();
  let queue: Answer[] = [];
  /** Where the queue begins. */
  let next = 0;
  let downUntil = 0;
  let breakdowns = 0;
  let window = { second: 0, taken: 0 };

  function take(answer: Answer): void {
    const now = engine.now();
    const trouble = troubleAt(now);
    if (trouble.kind === "hanging") return;
    if (trouble.kind === "down" || now < downUntil) refuse(answer, UNAVAILABLE);
    else if (trouble.kind === "refusing") refuse(answer, { kind: "response", status: trouble.status });
    else if (isTooMany()) refuse(answer, tooManyFor(shape));
    else enqueue(answer);
  }

  function refuse(answer: Answer, exchange: Exchange): void {
    engine.after(REFUSAL_MS, () => answer(exchange));
  }

  function isTooMany(): boolean {
    const second = Math.floor(engine.now() / 1000);
    const { perSecond } = shape;
    const taken = second === window.second ? window.taken + 1 : 1;
    window = { second, taken };
    return perSecond !== undefined && taken > perSecond;
  }

  function enqueue(answer: Answer): void {
    queue.push(answer);
    if (inService.size < shape.slots) serveNext();
    else if (queued() > shape.bound) breakDown();
  }

  function queued(): number {
    return queue.length - next;
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

  /** Requests that were in service when the server went down have failed already. */
  function finish(answer: Answer): void {
    if (!inService.delete(answer)) return;
    const trouble = troubleAt(engine.now());
    const isDown = trouble.kind === "down";
    const fails = isDown || (trouble.kind === "erratic" && engine.random() < trouble.share);
    answer(fails ? UNAVAILABLE : OK);
    serveNext();
  }

  function breakDown(): void {
    breakdowns += 1;
    downUntil = engine.now() + shape.restartMs;
    for (const answer of [...inService, ...queue.slice(next)]) refuse(answer, UNAVAILABLE);
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
