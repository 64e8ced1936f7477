/**
 * Using a lease: attempts over as many connections as the destination's window allows at the moment.
 *
 * It begins with the lease's width, widens with each success, narrows with trouble, and stops at once when
 * an outcome shuts the door: the same pure functions that the gate uses, on a copy of its condition. What
 * was not started is left over, not lost.
 */
import { conditionAtGate, holdGate } from "../gate/gate-client.ts";
import { conditionAfter, type Shut, type Sign, shutBy, withNews } from "../policy/condition.ts";
import type { GateSettings } from "../policy/gate-settings.ts";
import { type Grant, startsUntil } from "../policy/lease.ts";
import { backsOff, causeOf, healthOf } from "../policy/outcome.ts";
import { sendSlotsOf } from "../policy/places.ts";
import type { RetryPolicy } from "../policy/retry-policy.ts";
import type { Sample } from "../policy/sample.ts";
import { holdUntil } from "../policy/transition.ts";
import { widthOf } from "../policy/window.ts";
import type { Services } from "../services.ts";
import type { Work } from "../store/work.ts";
import type { Connections } from "./connections.ts";
import { type Outcome, outcomeOf } from "./outcome-rows.ts";
import { sampleOf } from "./sample-of.ts";
import { type Attempt, send } from "./send.ts";
import type { Signer } from "./signature.ts";

export type LeaseOrder = Readonly<{
  destination: string;
  grant: Grant;
  works: readonly Work[];
  settings: GateSettings;
  policy: RetryPolicy;
  signer: Signer;
  /** An attempt without an answer for so long is awaited no more. */
  patienceMs: number;
  /** When the grant arrived, by this worker's clock: its times count from then. */
  grantedAt: number;
}>;

/** A lease in use asks the gate so often whether others have found the door shut: a hold is for all of them. */
const NEWS_MS = 1_000;

/** An attempt that has ended, what it makes of its delivery, and what is counted of it. */
export type Finished = Readonly<{ attempt: Attempt; outcome: Outcome; sample: Sample }>;

/** A lease at work. The lists change while it runs. */
export type LeaseRun = Readonly<{
  done: readonly Finished[];
  /** One per attempt that has ended, in the order of their ends. */
  signs: readonly Sign[];
  /** Started and not answered yet, the longest first, and when. */
  running: ReadonlyMap<Work, number>;
  /** Not started yet, or never. */
  queue: readonly Work[];
  /** Whether its outcomes have shut the door, and until when. */
  shut: () => Shut | undefined;
  /** Whether it has time left to start attempts in, but the rate allows the next one only after it. */
  unplaced: () => boolean;
  /** The rate's theoretical arrival time by what was started, by this worker's clock; undefined when nothing was. */
  tat: () => number | undefined;
  /** All attempts have ended, or nothing more is started: one has been without an answer for too long. */
  enough: Promise<void>;
  finished: Promise<void>;
}>;

export function runLease(services: Services, connections: Connections, order: LeaseOrder): LeaseRun {
  const { grant, settings, policy, signer, patienceMs, grantedAt } = order;
  const readyAt = services.now();
  const startsUntilAt = startsUntil(grant, grantedAt, readyAt, settings.timeoutMs);
  const queue = [...order.works];
  const done: Finished[] = [];
  const signs: Sign[] = [];
  const slots = sendSlotsOf(grant, grantedAt);
  const running = new Map<Work, number>();
  const impatient = Promise.withResolvers<void>();
  let condition = grant.condition;
  let newsAt = grantedAt;
  let stopped = false;
  let watched = false;
  let gone = false;
  let lines = 0;

  function width(): number {
    const allowed = (window: typeof condition.window) => widthOf(window, settings.maxConcurrency);
    const growth = allowed(condition.window) - allowed(grant.condition.window);
    return Math.max(1, Math.min(grant.slots, grant.width + growth));
  }

  function isInTime(): boolean {
    return services.now() < startsUntilAt;
  }

  /** Whether the rate allows another attempt before the lease's time for starting any is over. */
  function hasSlot(): boolean {
    return (slots.nextAt() ?? startsUntilAt) < startsUntilAt;
  }

  function mayStart(): boolean {
    const isOpen = shutBy(condition, settings, services.now()) === undefined;
    return !stopped && !gone && isOpen && isInTime() && queue.length > 0;
  }

  async function hearNews(): Promise<void> {
    if (services.now() - newsAt < NEWS_MS) return;
    newsAt = services.now();
    const news = await conditionAtGate(services, order.destination);
    if (news) condition = withNews(condition, news);
  }

  function spreadNews(until: number): void {
    services.background(holdGate(services, order.destination, until));
  }

  /** In a slot that was claimed. Another may have started later than its own said: then this one is not free yet. */
  async function attemptNext(): Promise<void> {
    await hearNews();
    const work = slots.isFree(services.now()) && mayStart() ? queue.shift() : undefined;
    if (!work) return slots.giveBack();
    slots.use(services.now());
    running.set(work, services.now());
    if (!watched) void watch();
    const attempt = await send(services, work, { timeoutMs: settings.timeoutMs, signer });
    running.delete(work);
    const outcome = outcomeOf(attempt, policy, services.random());
    const finished = { attempt, outcome, sample: sampleOf(attempt, outcome) };
    done.push(finished);
    gone ||= causeOf(attempt.exchange) === "http_410";
    const sign = signOf(finished);
    if ((sign.holdUntil ?? 0) > condition.heldUntil) spreadNews(sign.holdUntil ?? 0);
    signs.push(sign);
    condition = conditionAfter(condition, sign, settings, services.random());
  }

  /** Until one has been without an answer for too long. One timer for all: each of them costs the runtime much. */
  async function watch(): Promise<void> {
    watched = true;
    for (let [longest] = running; longest; [longest] = running) {
      const [work, startedAt] = longest;
      await services.sleep(Math.max(0, startedAt + patienceMs - services.now()));
      if (!running.has(work)) continue;
      stopped = true;
      impatient.resolve();
      return;
    }
    watched = false;
  }

  /** One attempt after the other. Opens more lines when the window has grown, ends when it has shrunk. */
  async function line(): Promise<void> {
    lines += 1;
    const opened: Promise<void>[] = [];
    while (lines <= width() && mayStart() && hasSlot()) {
      const at = slots.claim() ?? 0;
      if (at > services.now()) await services.sleep(at - services.now());
      await connections.run(order.destination, attemptNext);
      while (lines < width() && mayStart() && hasSlot()) opened.push(line());
    }
    lines -= 1;
    await Promise.all(opened);
  }

  const finished = Promise.all(Array.from({ length: grant.width }, line)).then(() => undefined);
  // A receiver that is gone is about to be paused: what is left waits for a person.
  const shut = () => shutBy(condition, { paused: settings.paused || gone }, services.now());
  const unplaced = () => isInTime() && !hasSlot();
  // By then nothing is started any more; what still queues for a connection behind others' waits instead.
  const overdue = services.sleep(Math.max(0, startsUntilAt - readyAt) + patienceMs);
  const enough = Promise.race([finished, impatient.promise, overdue]);
  return { done, signs, running, queue, shut, unplaced, tat: slots.tat, enough, finished };
}

function signOf({ attempt, sample }: Finished): Sign {
  const { exchange, endedAt, limits } = attempt;
  const spent = limits?.remaining === 0 ? limits.resetAt : 0;
  const hold = Math.max(holdUntil(exchange, endedAt) ?? 0, spent);
  return {
    at: endedAt,
    health: healthOf(exchange),
    backsOff: backsOff(exchange),
    tookMs: sample.tookMs,
    sample,
    ...(hold > 0 && { holdUntil: hold }),
    ...(limits && { remaining: limits.remaining }),
  };
}
