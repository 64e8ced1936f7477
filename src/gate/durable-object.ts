/**
 * The gate: one object per destination, the only place that knows what is in flight to it anywhere.
 *
 * It must be a Durable Object because a semaphore and a circuit that hold globally need one writer. It
 * decides nothing itself: each method reads the clock, lets a pure function decide on the state in memory, and
 * writes what must be stored before the answer goes out. What may be written later, and why an eviction or a second
 * instance after a deploy cannot grant what was granted already: see write-behind.ts. A crash loses less than ten
 * seconds of successes from the figures, and nothing else.
 *
 * No timer waits for a later write, because it would keep the object in memory, which is billed: the alarm does.
 */
import { DurableObject } from "cloudflare:workers";
import {
  type AdmitRequest,
  type AdmitResult,
  admit,
  type Refusal,
  refusalAt,
  testRefusedUntil,
} from "../core/admit.ts";
import { afterDigestSent, type DeadLetterDigest } from "../core/alerts.ts";
import type { CircuitEvent, DestinationState } from "../core/destination-state.ts";
import { afterUnsent } from "../core/drain-scheduler.ts";
import type { GateState, Pause } from "../core/gate-state.ts";
import { type FiguresQuery, figuresOf, type GateFigures, type GateView, viewOf } from "../core/gate-view.ts";
import type { GateSettings } from "../core/limits.ts";
import {
  afterEmptyDrain,
  afterHold,
  afterHoldCleared,
  afterResume,
  afterUnattemptedDead,
  type SettleRequest,
  type SettleResult,
  scheduleDrain,
  settle,
  settleResultOf,
} from "../core/settle.ts";
import { afterAlarm, afterDecision, type Memory, restored, type Step } from "../core/write-behind.ts";
import { faultOf, logToConsole } from "../log.ts";
import { loadGate, loadHours, saveGate } from "./storage.ts";

/** Messages that one call of a queue takes. */
const QUEUE_PAGE = 100;

export class DestinationGate extends DurableObject<Env> {
  /** Undefined before the first call, and after a write that has failed. */
  #memory: Memory | undefined;

  /** Lets a group of deliveries in, or says why and until when they must wait. */
  async admit(ask: AdmitRequest, settings: GateSettings): Promise<AdmitResult> {
    const { answer } = await this.#decide((state, now) => admit(state, ask, settings, now));
    return answer;
  }

  /** Ends a lease with what its attempts showed; null when that is nothing new. Safe to repeat. */
  async settle(settlement: SettleRequest, settings: GateSettings): Promise<SettleResult | null> {
    const { news } = await this.#decide((state, now) => {
      const settled = settle(state, settlement, settings, now, Math.random());
      return { state: settled.state, news: settleResultOf(settled, now) ?? null };
    });
    return news;
  }

  /** The receiver has asked for quiet until then (epoch ms): for all leases, from now on. Safe to repeat. */
  async hold(until: number): Promise<readonly CircuitEvent[]> {
    const { events } = await this.#decide((state, now) => afterHold(state, until, now));
    return events;
  }

  /** A person has ended the receiver's hold: what waits is worked off from one. Safe to repeat. */
  async clearHold(): Promise<readonly CircuitEvent[]> {
    const { events } = await this.#decide((state, now) => afterHoldCleared(state, now));
    return events;
  }

  /** The destination has been deleted and nothing waits for it: forgets everything, the alarm too. Safe to repeat. */
  async forget(): Promise<void> {
    try {
      await this.ctx.storage.deleteAlarm();
      await this.ctx.storage.deleteAll();
    } finally {
      this.#memory = undefined;
    }
  }

  /**
   * Something waits in D1: have it worked off as soon as the door allows; after a pause, which is remembered, afresh
   * and from one.
   */
  async ring(why: "waiting" | "resumed", pause?: Pause): Promise<void> {
    await this.#decide((state, now) => ({
      state: why === "resumed" ? afterResume(state, now, pause) : scheduleDrain(state, now),
    }));
  }

  /** A drain that looked at `lookedAt` (epoch ms) found nothing waiting. */
  async nothingWaits(lookedAt: number): Promise<void> {
    await this.#decide((state, now) => ({ state: afterEmptyDrain(state, lookedAt, now) }));
  }

  /** So many deliveries have ended dead without an attempt; whether somebody is to come and ask for the toll. */
  async died(deliveries: number): Promise<boolean> {
    const { digestDue } = await this.#decide((state, now) => afterUnattemptedDead(state, deliveries, now));
    return digestDue;
  }

  /** The dead of whom nobody has been told. Changes nothing. */
  deadLetterDigest(): DeadLetterDigest {
    return this.#state(Date.now()).deadLetterDigest;
  }

  /** They have been told of; whether more have died meanwhile. Safe to repeat. */
  async markDigestSent(paid: DeadLetterDigest): Promise<boolean> {
    const { isDue } = await this.#decide((state, now) => {
      const { deadLetterDigest, isDue } = afterDigestSent(state.deadLetterDigest, paid, now);
      return { state: { ...state, deadLetterDigest }, isDue };
    });
    return isDue;
  }

  /** Whether a test event may be sent now: null, or else when it may be (epoch ms). */
  async tryOut(): Promise<number | null> {
    const { until } = await this.#decide((state, now) => {
      const until = testRefusedUntil(state.testedAt, now);
      return { state: until === undefined ? { ...state, testedAt: now } : state, until };
    });
    return until ?? null;
  }

  /** What a waiting delivery would be told now; null when it would be let in. Changes nothing. */
  look(settings: GateSettings): Refusal | null {
    const now = Date.now();
    return refusalAt(this.#state(now), "backlog", settings, now) ?? null;
  }

  /** What has been learned of the destination, by whomever. For the holders of long leases; costs no row. */
  destinationState(): DestinationState {
    return this.#state(Date.now()).destinationState;
  }

  /** The gate as it stands, for people. Changes nothing. */
  view(settings: GateSettings): GateView {
    const now = Date.now();
    return viewOf(this.#state(now), settings, now);
  }

  /** What it has counted, and how it stands. Changes nothing. */
  figures(look: FiguresQuery, settings: GateSettings): GateFigures {
    const now = Date.now();
    return figuresOf(this.#state(now), loadHours(this.ctx.storage), look, settings, now);
  }

  /**
   * Writes what is behind; and the bell: sends for drains when the door is open. May run twice: more drains find the
   * leases taken.
   */
  override async alarm(): Promise<void> {
    const now = Date.now();
    const step = afterAlarm(this.#recall(now), now);
    // Kept before anything is awaited: what is admitted while the messages are sent must not be overwritten.
    await this.#keep(step);
    const sent = await this.#sendDrains(step.drains, step.abreast);
    if (sent === step.drains) return;
    await this.#decide((current, at) => ({
      state: { ...current, drainSchedule: afterUnsent(current.drainSchedule, step.drains - sent, at) },
    }));
  }

  /** As many of them as the queue has taken: what a call that failed may have put there comes twice, at worst. */
  async #sendDrains(drains: number, abreast: number): Promise<number> {
    const destination = this.#destination();
    const message = { body: { destination, drains: abreast } };
    let sent = 0;
    try {
      while (sent < drains) {
        const page = Math.min(drains - sent, QUEUE_PAGE);
        await this.env.DRAINS.sendBatch(Array.from({ length: page }, () => message));
        sent += page;
      }
    } catch (error) {
      logToConsole({ what: "drains_unsent", destination, drains: drains - sent, error: faultOf(error) });
    }
    return sent;
  }

  /** Recalls, decides, keeps; nothing comes between. */
  async #decide<T extends Readonly<{ state: GateState }>>(
    decide: (state: GateState, now: number) => T,
  ): Promise<T> {
    const now = Date.now();
    const memory = this.#recall(now);
    const decision = decide(memory.state, now);
    await this.#keep(afterDecision(memory, decision.state, now));
    return decision;
  }

  /** Nothing is remembered that could not be written: whoever comes next begins with what is stored. */
  async #keep({ memory, writes, alarm }: Step): Promise<void> {
    const { storage } = this.ctx;
    this.#memory = undefined;
    const state = writes ? saveGate(storage, memory.state) : memory.state;
    // In the same turn, so that both are stored or neither.
    const set =
      alarm === undefined ? undefined : alarm === null ? storage.deleteAlarm() : storage.setAlarm(alarm);
    this.#memory = { ...memory, state };
    try {
      await set;
    } catch (error) {
      this.#memory = undefined;
      throw error;
    }
  }

  #recall(now: number): Memory {
    const onCorrupt = () => logToConsole({ what: "gate_state_corrupt", destination: this.#destination() });
    this.#memory ??= restored(loadGate(this.ctx.storage, onCorrupt), now);
    return this.#memory;
  }

  #state(now: number): GateState {
    return this.#recall(now).state;
  }

  /** Gates are named after their destinations. */
  #destination(): string {
    const { name } = this.ctx.id;
    if (name === undefined) throw new Error("A gate must be reached by its destination's name");
    return name;
  }
}
