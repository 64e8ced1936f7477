/**
 * The gate: one Durable Object per destination, the only place that knows what is in flight to it anywhere.
 *
 * A semaphore, a circuit and a rate that hold globally need one writer. The object decides nothing itself: each method
 * reads the clock, applies a pure function (src/core) to the state in memory, and writes what must be stored before the
 * result goes out. What may be written later, and why neither an eviction nor a second instance after a deploy grants
 * the same capacity twice: see core/write-behind.ts. A crash loses a few seconds of counted successes, and nothing
 * else.
 *
 * No timer waits for a later write, because it would keep the object in memory, which is billed: the alarm does it.
 * docs/gate.md explains the whole.
 */
import { DurableObject } from "cloudflare:workers";
import type { TokenAtGate, TokenRequest } from "../core/access-token.ts";
import {
  type AdmitRequest,
  type AdmitResult,
  admit,
  type Refusal,
  recheck,
  refusalAt,
  testRefusedUntil,
} from "../core/admit.ts";
import { afterDigestSent, type DeadLetterDigest } from "../core/alerts.ts";
import { isSuspect } from "../core/crash-loop.ts";
import type { CircuitEvent, ReadState } from "../core/destination-state.ts";
import { afterUnsent } from "../core/drain-scheduler.ts";
import type { GateState, Pause } from "../core/gate-state.ts";
import { type FiguresQuery, figuresOf, type GateFigures, type GateView, viewOf } from "../core/gate-view.ts";
import type { InboxPosition } from "../core/inbox.ts";
import type { GateSettings } from "../core/limits.ts";
import {
  afterEmptyDrain,
  afterGroupLeft,
  afterHold,
  afterHoldCleared,
  afterResume,
  afterTransformFaults,
  afterUnattemptedDead,
  holdByGate,
  type SettleRequest,
  type SettleResult,
  scheduleDrain,
  settle,
  settleResultOf,
} from "../core/settle.ts";
import { afterAlarm, afterDecision, type GateMemory, type GateStep, restored } from "../core/write-behind.ts";
import { faultOf, logToConsole } from "../log.ts";
import { batchesOf, type DrainMessage } from "../queue-messages.ts";
import { AccessTokens, type Fetched, type TokenResult } from "./access-tokens.ts";
import {
  type CommittedPage,
  type ConsumerView,
  Inbox,
  type LagChange,
  type LateEvent,
  type NextInInbox,
  type PageClaim,
  type PageCommit,
  type PageRequest,
} from "./inbox.ts";
import { loadGate, loadHours, saveGate } from "./storage.ts";

export class DestinationGate extends DurableObject<Env> {
  /** Undefined before the first call, and after a write that has failed. */
  #memory: GateMemory | undefined;
  readonly #accessTokens = new AccessTokens(this.ctx.storage);
  readonly #inbox = new Inbox(this.ctx.storage);

  /** Grants a lease on a group of deliveries, or says why and until when they must wait. */
  async admit(request: AdmitRequest, settings: GateSettings): Promise<AdmitResult> {
    return (await this.#decide((state, now) => admit(state, request, settings, now))).result;
  }

  /** Ends a lease with its attempts' signals; null when nothing follows. Safe to repeat. */
  async settle(request: SettleRequest, settings: GateSettings): Promise<SettleResult | null> {
    const { result } = await this.#decide((state, now) => {
      const settlement = settle(state, request, settings, now, Math.random());
      return { state: settlement.state, result: settleResultOf(settlement, now) ?? null };
    });
    return result;
  }

  /**
   * The receiver requested a hold until then (epoch ms), which applies to all leases from now on. Safe to repeat.
   * @param sentAt when this was sent, by the same clock; absent from 0.3.0
   */
  async hold(until: number, sentAt?: number): Promise<readonly CircuitEvent[]> {
    const held = await this.#decide((state, now) => afterHold(state, holdByGate(until, sentAt, now), now));
    return held.events;
  }

  /** An operator ended the receiver's hold: the backlog is drained, from one attempt at a time. Safe to repeat. */
  async clearHold(): Promise<readonly CircuitEvent[]> {
    return (await this.#decide(afterHoldCleared)).events;
  }

  /**
   * The destination was deleted and nothing waits for it: removes all that is stored, and the alarm. Safe to repeat.
   */
  async forget(): Promise<void> {
    try {
      await this.ctx.storage.deleteAlarm();
      await this.ctx.storage.deleteAll();
    } finally {
      this.#memory = undefined;
      this.#inbox.forget();
    }
  }

  /** Deliveries wait in D1: drain them as soon as the gate is open. */
  async scheduleDrain(): Promise<void> {
    await this.#decide((state, now) => ({ state: scheduleDrain(state, now) }));
  }

  /**
   * An operator has the destination tried again: hold and cool-down end, and traffic restarts from one.
   * @param pause the pause that was lifted, for the history
   */
  async resume(pause?: Pause): Promise<void> {
    await this.#decide((state, now) => ({ state: afterResume(state, now, pause) }));
  }

  /** The destination was moved to another group, or out of one. Safe to repeat. */
  async leaveGroup(): Promise<void> {
    await this.#decide((state, now) => ({ state: afterGroupLeft(state, now) }));
  }

  /** A drain that read D1 at `lookedAt` (epoch ms) found nothing waiting. */
  async reportEmptyDrain(lookedAt: number): Promise<void> {
    await this.#decide((state, now) => ({ state: afterEmptyDrain(state, lookedAt, now) }));
  }

  /** Counts deliveries that ended dead without an attempt. Returns whether to schedule the dead-letter digest. */
  async countDead(deliveries: number): Promise<boolean> {
    return (await this.#decide((state, now) => afterUnattemptedDead(state, deliveries, now))).isDue;
  }

  /**
   * Counts further deliveries for which this version of the transformation made no request. Returns whether there are
   * too many.
   */
  async countTransformFaults(version: number, deliveries: number): Promise<boolean> {
    return (await this.#decide((state) => afterTransformFaults(state, version, deliveries))).isOver;
  }

  /** The dead deliveries that are not published yet. Changes nothing. */
  deadLetterDigest(): DeadLetterDigest {
    return this.#state(Date.now()).deadLetterDigest;
  }

  /** That digest was published. Returns whether to schedule another. Safe to repeat. */
  async markDigestSent(sent: DeadLetterDigest): Promise<boolean> {
    const { isDue } = await this.#decide((state, now) => {
      const { deadLetterDigest, isDue } = afterDigestSent(state.deadLetterDigest, sent, now);
      return { state: { ...state, deadLetterDigest }, isDue };
    });
    return isDue;
  }

  /** Claims the right to send a test event, or a suite, now: null, or else when it may be sent (epoch ms). */
  async claimTest(isSuite = false): Promise<number | null> {
    const { until } = await this.#decide((state, now) => {
      const until = testRefusedUntil(state, now, isSuite);
      return { state: until === undefined ? { ...state, testedAt: now } : state, until };
    });
    return until ?? null;
  }

  /** The access token of the destination, why there is none, or the claim to fetch one for everybody. */
  accessToken(request: TokenRequest): Promise<TokenResult> {
    return this.#accessTokens.request(request);
  }

  /** Stores the result of a claim to fetch a token. */
  keepAccessToken(terms: string, fetched: Fetched): TokenAtGate {
    return this.#accessTokens.keep(terms, fetched);
  }

  /** An event that is due later than it was accepted goes into the inbox of a polled destination. */
  placeInInbox(event: number, keptSince: number): void {
    this.#inbox.place(event, Date.now(), keptSince);
    this.wakeInbox();
  }

  /** Something is in the inbox: wakes the requests that wait for it. */
  wakeInbox(): void {
    for (const socket of this.ctx.getWebSockets())
      try {
        socket.send("arrived");
      } catch {
        // The socket closes: its request has its answer.
      }
  }

  /**
   * A request that waits for the inbox holds a socket. The object may hibernate meanwhile, so that waiting is not billed; a call
   * that the object does not answer would keep it in memory.
   */
  override fetch(_request: Request): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override webSocketClose(socket: WebSocket): void {
    socket.close();
  }

  nextInInbox(request: PageRequest): NextInInbox {
    return this.#inbox.next(request, Date.now());
  }

  /** Hands out a page that follows the last one; null if another one has been handed out meanwhile. */
  claimPage(claim: PageClaim): number | null {
    return this.#inbox.claim(claim, Date.now()) ?? null;
  }

  /** Acknowledges a page of the inbox, or events of it. Safe to repeat. */
  commitPage(commit: PageCommit): CommittedPage {
    return this.#inbox.commit(commit, Date.now());
  }

  /** A consumer of the inbox starts over; false if there are too many. Safe to repeat. */
  seekInInbox(consumer: string, next: InboxPosition["next"], since: number): boolean {
    return this.#inbox.seek(consumer, next, since, Date.now());
  }

  /** Late events of the inbox behind a position. Changes nothing. */
  lateInInbox(after: number, limit: number): LateEvent[] {
    return this.#inbox.late(after, undefined, limit);
  }

  /** A position before all late events of the inbox that were placed at a time or later. Changes nothing. */
  lateBefore(since: number): number {
    return this.#inbox.lateBefore(since);
  }

  /** The consumers of the inbox. Changes nothing. */
  inboxConsumers(): ConsumerView[] {
    return this.#inbox.view();
  }

  /** Lags of consumers of the inbox have begun, were published or have ended. Safe to repeat. */
  noteLags(changes: readonly LagChange[]): void {
    this.#inbox.noteLags(changes);
  }

  /** These deliveries are changed in D1. Returns those that are in flight, which their senders change. Safe to repeat. */
  async recheck(deliveries: readonly number[]): Promise<readonly number[]> {
    return (await this.#decide((state, now) => recheck(state, deliveries, now))).inFlight;
  }

  /** Why the backlog is refused now; null when it would be admitted. Changes nothing. */
  refusal(settings: GateSettings): Refusal | null {
    const now = Date.now();
    return refusalAt(this.#state(now), "backlog", settings, now) ?? null;
  }

  /** The knowledge of all leases about the destination, for the holders of long ones. Writes no row. */
  destinationState(): ReadState {
    const now = Date.now();
    return { ...this.#state(now).destinationState, at: now };
  }

  /** The gate's current state, for people. Changes nothing. */
  view(settings: GateSettings): GateView {
    const now = Date.now();
    return viewOf(this.#state(now), settings, now);
  }

  /** Returns its counts and its current state. Changes nothing. */
  figures(query: FiguresQuery, settings: GateSettings): GateFigures {
    const now = Date.now();
    return figuresOf(this.#state(now), loadHours(this.ctx.storage), query, settings, now);
  }

  /**
   * Writes the state that is not stored yet, and enqueues drains when they are due and the gate is open. May run twice:
   * surplus drains find the deliveries leased.
   */
  override async alarm(): Promise<void> {
    const now = Date.now();
    const step = afterAlarm(this.#load(now), now);
    // Before the first await: deliveries admitted while the messages are sent must not be overwritten.
    await this.#save(step);
    const alone = isSuspect(step.memory.state.crashLoop);
    const sent = await this.#enqueueDrains(step.drains, {
      destination: this.#destination(),
      drains: step.drainsAtWork,
      ...(alone && { alone }),
    });
    if (sent === step.drains) return;
    await this.#decide((current, at) => ({
      state: { ...current, drainSchedule: afterUnsent(current.drainSchedule, step.drains - sent, at) },
    }));
  }

  /** Returns how many the queue took. A call that failed may have enqueued some: at worst they come twice. */
  async #enqueueDrains(drains: number, body: DrainMessage): Promise<number> {
    const { destination } = body;
    let sent = 0;
    try {
      for (const batch of batchesOf(Array.from({ length: drains }, () => ({ body })))) {
        await this.env.DRAINS.sendBatch(batch);
        sent += batch.length;
      }
    } catch (error) {
      logToConsole({ what: "drains_unsent", destination, drains: drains - sent, error: faultOf(error) });
    }
    return sent;
  }

  /** Load, decide, save, without an await between load and save: no other call sees the state half-way. */
  async #decide<T extends Readonly<{ state: GateState }>>(
    decide: (state: GateState, now: number) => T,
  ): Promise<T> {
    const now = Date.now();
    const memory = this.#load(now);
    const decision = decide(memory.state, now);
    await this.#save(afterDecision(memory, decision.state, now));
    return decision;
  }

  /** After a write that failed the memory is dropped, and the next call begins with what is stored. */
  async #save({ memory, writes, alarm }: GateStep): Promise<void> {
    const { storage } = this.ctx;
    this.#memory = undefined;
    const state = writes ? saveGate(storage, memory.state) : memory.state;
    // In the same turn as the state, so that both are stored or neither.
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

  #load(now: number): GateMemory {
    const onCorrupt = () => logToConsole({ what: "gate_state_corrupt", destination: this.#destination() });
    this.#memory ??= restored(loadGate(this.ctx.storage, onCorrupt), now);
    return this.#memory;
  }

  #state(now: number): GateState {
    return this.#load(now).state;
  }

  /** Gates are named after their destinations. */
  #destination(): string {
    const { name } = this.ctx.id;
    if (name === undefined) throw new Error("A gate must be reached by its destination's name");
    return name;
  }
}
