/**
 * A group: one Durable Object for destinations that share a receiver, named after the group. It decides nothing itself
 * (core/group), and calls no gate: members that are called get a drain by way of the queue.
 *
 * A block is stored before it is given out, and so is everything that blocks or narrows the group. A returned block is
 * stored with the next one given out: if that is lost, the block counts until it expires.
 */
import { DurableObject } from "cloudflare:workers";
import { type BlockAnswer, type BlockRequest, called, deal } from "../core/group/deal.ts";
import {
  afterGroupReset,
  type GroupSettings,
  type GroupStanding,
  type GroupState,
  type GroupView,
  groupMustBeStored,
  groupViewOf,
  newGroupState,
  standingOf,
} from "../core/group/group-state.ts";
import { afterGroupReport, type GroupReport } from "../core/group/report.ts";
import { faultOf, logToConsole } from "../log.ts";
import { batchesOf, type DrainMessage } from "../queue-messages.ts";
import { loadGroup, saveGroup } from "./group-storage.ts";

export class ReceiverGroup extends DurableObject<Env> {
  /** Undefined before the first call, and after a write that has failed. */
  #memory: GroupState | undefined;
  /** The time that the alarm is set for, as far as this incarnation knows. */
  #alarmAt: number | null = null;

  /** Gives a member a block of the capacity, or says why not. A block whose answer is lost expires. */
  async deal(request: BlockRequest, settings: GroupSettings): Promise<BlockAnswer> {
    return this.#decide(settings, (state, now) => {
      const { state: next, answer } = deal(state, request, settings, now, Math.random());
      return { state: next, result: answer };
    });
  }

  /** Counts outcomes and ends of blocks. Returns whether the failures are the group's. */
  async report(report: GroupReport, settings: GroupSettings): Promise<boolean> {
    return this.#decide(settings, (state, now) => {
      const { state: next, counted } = afterGroupReport(state, report, settings, now, Math.random());
      return { state: next, result: counted };
    });
  }

  /** Hold and open circuit, for the holders of leases. Changes nothing. */
  standing(): GroupStanding {
    const now = Date.now();
    return standingOf(this.#load(now), now);
  }

  /** The group's current state, for people. Changes nothing. */
  view(settings: GroupSettings): GroupView {
    const now = Date.now();
    return groupViewOf(this.#load(now), settings, now);
  }

  /** An operator has the receiver tried again: circuit and hold end. Safe to repeat. */
  async reset(settings: GroupSettings): Promise<void> {
    await this.#decide(settings, (state, now) => ({ state: afterGroupReset(state, now), result: undefined }));
  }

  /** Calls members that wait. */
  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    const { settings } = this.#load(Date.now());
    if (settings) await this.#decide(settings, (state) => ({ state, result: undefined }));
  }

  /** Load, decide, save, without an await between load and save: no other call sees the state half-way. */
  async #decide<T>(
    settings: GroupSettings,
    decide: (state: GroupState, now: number) => Readonly<{ state: GroupState; result: T }>,
  ): Promise<T> {
    const now = Date.now();
    const before = this.#load(now);
    const { state, result } = decide(before, now);
    const { state: after, members, at } = called(state, settings, now);
    await this.#save(before, after, at, now);
    if (members.length > 0) this.ctx.waitUntil(this.#call(members));
    return result;
  }

  /** After a write that failed the memory is dropped, and the next call begins with what is stored. */
  async #save(before: GroupState, after: GroupState, at: number | null, now: number): Promise<void> {
    this.#memory = undefined;
    const { storage } = this.ctx;
    const isSet = this.#alarmAt !== null && this.#alarmAt > now && at !== null && this.#alarmAt <= at;
    const sets = at !== null && !isSet;
    if (sets || groupMustBeStored(before, after)) saveGroup(storage, after);
    const set = sets ? storage.setAlarm(at) : undefined;
    this.#memory = after;
    if (sets) this.#alarmAt = at;
    try {
      await set;
    } catch (error) {
      this.#memory = undefined;
      this.#alarmAt = null;
      throw error;
    }
  }

  /** If a call is lost, the member's own alarm replaces it. */
  async #call(members: readonly string[]): Promise<void> {
    try {
      const messages = members.map((destination) => ({
        body: { destination, drains: 1 } satisfies DrainMessage,
      }));
      for (const batch of batchesOf(messages)) await this.env.DRAINS.sendBatch(batch);
    } catch (error) {
      logToConsole({ what: "group_calls_unsent", group: this.ctx.id.name, error: faultOf(error) });
    }
  }

  #load(now: number): GroupState {
    this.#memory ??= this.#stored(now);
    return this.#memory;
  }

  /** A stored value that is not a group's state is replaced: members' leases end by their own clocks. */
  #stored(now: number): GroupState {
    const onCorrupt = () => logToConsole({ what: "group_state_corrupt", group: this.ctx.id.name });
    const stored = loadGroup(this.ctx.storage, onCorrupt);
    return stored ? { ...stored, incarnation: stored.incarnation + 1 } : newGroupState(now);
  }
}
