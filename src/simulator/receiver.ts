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

const REFUSAL_MS = 5;
const UNAVAILABLE: Exchange = { kind: "response", status: 503 };
const OK: Exchange = { kind: "response", status: 200 };

type Answer = (exchange: Exchange) => void;

export class Receiver {
  readonly #engine: VirtualTime;
  readonly #shape: ServerShape;
  readonly #troubleAt: (now: number) => Trouble;
  readonly #inService = new Set<Answer>();
  #queue: Answer[] = [];
  /** Where the queue begins. */
  #next = 0;
  #downUntil = 0;
  #breakdowns = 0;
  #window = { second: 0, taken: 0 };

  constructor(engine: VirtualTime, shape: ServerShape, troubleAt: (now: number) => Trouble) {
    this.#engine = engine;
    this.#shape = shape;
    this.#troubleAt = troubleAt;
  }

  /** How often it broke down under load. */
  get breakdowns(): number {
    return this.#breakdowns;
  }

  take(answer: Answer): void {
    const now = this.#engine.now();
    const trouble = this.#troubleAt(now);
    if (trouble.kind === "hanging") return;
    if (trouble.kind === "down" || now < this.#downUntil) this.#refuse(answer, UNAVAILABLE);
    else if (trouble.kind === "refusing") this.#refuse(answer, { kind: "response", status: trouble.status });
    else if (this.#isTooMany()) this.#refuse(answer, tooManyFor(this.#shape));
    else this.#enqueue(answer);
  }

  #refuse(answer: Answer, exchange: Exchange): void {
    this.#engine.after(REFUSAL_MS, () => answer(exchange));
  }

  #isTooMany(): boolean {
    const second = Math.floor(this.#engine.now() / 1000);
    const { perSecond } = this.#shape;
    const taken = second === this.#window.second ? this.#window.taken + 1 : 1;
    this.#window = { second, taken };
    return perSecond !== undefined && taken > perSecond;
  }

  #enqueue(answer: Answer): void {
    this.#queue.push(answer);
    if (this.#inService.size < this.#shape.slots) this.#serveNext();
    else if (this.#queued() > this.#shape.bound) this.#breakDown();
  }

  #queued(): number {
    return this.#queue.length - this.#next;
  }

  #serveNext(): void {
    const answer = this.#queue[this.#next];
    if (!answer) return;
    this.#next += 1;
    if (this.#next > 1000) {
      this.#queue = this.#queue.slice(this.#next);
      this.#next = 0;
    }
    this.#inService.add(answer);
    this.#engine.after(this.#serviceMs(), () => this.#finish(answer));
  }

  #serviceMs(): number {
    const trouble = this.#troubleAt(this.#engine.now());
    const slowness = trouble.kind === "slow" ? trouble.factor : 1;
    return this.#shape.serviceMs * slowness * Math.max(1, this.#queued() / this.#shape.strain);
  }

  /** What was in service when the server went down has failed already. */
  #finish(answer: Answer): void {
    if (!this.#inService.delete(answer)) return;
    const trouble = this.#troubleAt(this.#engine.now());
    const isDown = trouble.kind === "down";
    const fails = isDown || (trouble.kind === "erratic" && this.#engine.random() < trouble.share);
    answer(fails ? UNAVAILABLE : OK);
    this.#serveNext();
  }

  #breakDown(): void {
    this.#breakdowns += 1;
    this.#downUntil = this.#engine.now() + this.#shape.restartMs;
    for (const answer of [...this.#inService, ...this.#queue.slice(this.#next)])
      this.#refuse(answer, UNAVAILABLE);
    this.#inService.clear();
    this.#queue = [];
    this.#next = 0;
  }
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
