/** When a door was not open, as stretches of a line of time. Pure; times in epoch ms. */
import type { GateView } from "../policy/gate-view.ts";
import type { Destination } from "../store/destination-settings.ts";

export type Stretch = Readonly<{ kind: "circuit" | "held" | "paused"; from: number; to: number }>;

type Door = Readonly<{
  history: GateView["history"];
  row: Pick<Destination, "status" | "statusChangedAt">;
}>;

/** Those that reach into the time from `since` to `now`, cut to it. The present pause is the destination's own. */
export function stretchesOf({ history, row }: Door, since: number, now: number): readonly Stretch[] {
  const closings = history.filter(({ what }) => what === "circuit_closed");
  const all = history.flatMap(({ at, what, until = at }): Stretch[] => {
    if (what === "held") return [{ kind: "held", from: at, to: until }];
    if (what === "paused") {
      const lifted = history.find((next) => next.what === "resumed" && next.at >= at);
      return lifted ? [{ kind: "paused", from: at, to: lifted.at }] : [];
    }
    if (what !== "circuit_opened") return [];
    return [{ kind: "circuit", from: at, to: closings.find((closing) => closing.at >= at)?.at ?? now }];
  });
  const paused: Stretch[] =
    row.status === "paused" ? [{ kind: "paused", from: row.statusChangedAt ?? now, to: now }] : [];
  return [...(["held", "circuit", "paused"] as const).flatMap((kind) => joined(all, kind)), ...paused]
    .map((stretch) => ({ ...stretch, from: Math.max(since, stretch.from), to: Math.min(now, stretch.to) }))
    .filter(({ from, to }) => to > from);
}

/** Those of one kind, in order; what touches is one: a circuit opens again and again before it closes. */
function joined(all: readonly Stretch[], kind: Stretch["kind"]): readonly Stretch[] {
  const done: Stretch[] = [];
  for (const next of all.filter((stretch) => stretch.kind === kind)) {
    const last = done.at(-1);
    if (last === undefined || next.from > last.to) done.push(next);
    else done[done.length - 1] = { ...last, to: Math.max(last.to, next.to) };
  }
  return done;
}
