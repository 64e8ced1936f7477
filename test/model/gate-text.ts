/** How the steps of the gate's model name what they are about. */
import { BEGINNING, type Run, TICK_MS, type Which, type World } from "./gate-world.ts";

const letters = "ABCDEFGH";

export function nameOf(delivery: number): string {
  return letters[delivery] ?? "?";
}

export function namesOf(deliveries: readonly number[]): string {
  return deliveries.map(nameOf).join(" and ");
}

export function runName({ lane, deliveries }: Run, isInside = false): string {
  const the = isInside ? "the" : "The";
  return `${the} ${lane === "backlog" ? "drain" : "consumer"} of ${namesOf(deliveries)}`;
}

export function gateName(by: Which, { former }: World): string {
  if (by === "former") return "The gate's former instance";
  return former ? "The gate's new instance" : "The gate";
}

export function answerText({ grant, refused, items }: Run): string {
  if (grant) return `a lease for ${namesOf(items.map(({ delivery }) => delivery))}`;
  return refused.length > 0 ? "a refusal" : "no lease: it is in flight, or to be read again";
}

export function secondsOf(at: number): string {
  return `${(at - BEGINNING) / 1000} s`;
}

export function tickText({ now }: World): string {
  return `${secondsOf(now + TICK_MS)} have passed.`;
}
