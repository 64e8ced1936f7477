/** Which states of the gate's model have the same future. */
import type { GateState } from "../../src/core/gate-state.ts";
import type { Lease } from "../../src/core/lease.ts";
import type { Instance, Quiet, World } from "./gate-world.ts";

/**
 * The parts of a world that determine its future. Left out: counters and history of the gate, which decide nothing
 * here; the rate's reservations, because no rate limits anything here; and the names of leases, which stand for
 * themselves.
 */
export function keyOf(world: World): string {
  const { current, former, storage, runs, messages, orphans, deliveries, now, quiet, ...rest } = world;
  const { faults, failures, delays, holds, pauses, clears, isCalm, alarmAt, drains, wrong } = rest;
  const { paused, isResuming, tells, heldUntil } = rest;
  const own = [
    [now, faults, failures, delays, holds, pauses, clears, isCalm, alarmAt, drains, wrong].join(),
    [paused, isResuming, tells, heldUntil > now ? heldUntil : 0].join(),
    quiet && keyOfQuiet(quiet, now),
    orphans
      .filter((until) => until > now)
      .sort()
      .join(),
  ];
  return withShortNames(
    own.join("|"),
    [storage && partOfGate(storage), current && partOfInstance(current), former && partOfInstance(former)],
    deliveries.map(partOf),
    sorted(runs.map(partOf)),
    sorted(messages.map(partOf)),
  );
}

function keyOfQuiet({ hasLost, hasForgotten, hasDense, died, successes }: Quiet, now: number): string {
  return [
    hasLost,
    hasForgotten,
    hasDense,
    died,
    "of",
    successes.map((until) => Math.max(until, now)).sort(),
  ].join();
}

/** A part of a key: the number of its text without the names of leases, and those names as they come. */
export type KeyPart = Readonly<{ text: string; form: number; names: readonly string[] }>;

/** Parts that may come in any order. */
export function sorted(parts: readonly KeyPart[]): readonly KeyPart[] {
  return parts.toSorted((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0));
}

/** The key of a state: its parts, in which leases have numbers by the order in which they are named. */
export function withShortNames(own: string, ...groups: (readonly (KeyPart | undefined)[])[]): string {
  const numbers = new Map<string, number>();
  let key = own;
  for (const group of groups) {
    key += "|";
    for (const part of group) {
      key += part ? `,${part.form}` : ",";
      for (const name of part?.names ?? []) {
        const number = numbers.get(name) ?? numbers.size;
        numbers.set(name, number);
        key += `.${number}`;
      }
    }
  }
  return key;
}

const NAME = /"(?:lost-\d+|[0-9a-z]+-[0-9a-z]+-\d+)"/g;

const forms = new Map<string, number>();

function formOf(text: string): number {
  const form = forms.get(text) ?? forms.size;
  forms.set(text, form);
  return form;
}

function written(text: string): KeyPart {
  const names = text.match(NAME) ?? [];
  return { text, form: formOf(names.length > 0 ? text.replaceAll(NAME, "#") : text), names };
}

/** A part that is made of others, and of what names no lease. */
function composed(own: string, parts: readonly (KeyPart | undefined)[]): KeyPart {
  const text = `${own}|${parts.map((part) => part?.form).join()}`;
  return { text, form: formOf(text), names: parts.flatMap((part) => part?.names ?? []) };
}

function once<Of extends object>(partOf: (of: Of) => KeyPart): (of: Of) => KeyPart {
  const parts = new WeakMap<Of, KeyPart>();
  return (of) => {
    const known = parts.get(of) ?? partOf(of);
    parts.set(of, known);
    return known;
  };
}

/** States share most of their parts. */
export function remembered<Of extends object>(textOf: (of: Of) => string): (of: Of) => KeyPart {
  return once((of) => written(textOf(of)));
}

export const partOf = remembered((part: object) => JSON.stringify(part));

const partOfInstance = once(({ memory, knows, heldUntil, cutOffAt }: Instance) => {
  const { state, written: stored, ...rest } = memory;
  const known = stored && { ...stored, leases: [...stored.leases].sort() };
  return composed("", [
    partOfGate(state),
    written(JSON.stringify([known, rest, knows, heldUntil, cutOffAt])),
  ]);
});

const partOfLease = remembered(({ tat: _, ...lease }: Lease) => JSON.stringify(lease));

const partOfGate = once((state: GateState) => {
  const { leases, forgottenAt, slack, destinationState, presumed, settled, crashLoop, turns } = state;
  const others = [destinationState, presumed, settled, crashLoop, turns, state.drainSchedule].map(partOf);
  return composed(`${forgottenAt} ${leases.length}`, [
    slack ? partOf(slack) : undefined,
    ...leases.map(partOfLease),
    ...others,
  ]);
});
