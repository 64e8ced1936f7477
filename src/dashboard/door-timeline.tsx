/** How a door has stood over the time that the chart above it shows, on the same line of time. */
import type { FC } from "hono/jsx";
import type { Stretch } from "./door-strip.ts";
import { spanOf } from "./figures.ts";

type Props = Readonly<{
  stretches: readonly Stretch[];
  /** Epoch ms: the line's ends, and now, between them. */
  since: number;
  until: number;
  now: number;
}>;

const names: Readonly<Record<Stretch["kind"], string>> = {
  circuit: "circuit open",
  held: "on hold",
  paused: "paused",
};

export const CircuitTimeline: FC<Props> = ({ stretches, since, until, now }) => {
  const place = (at: number) => (100 * (at - since)) / (until - since);
  const bar = (className: string, from: number, to: number, title?: string) => (
    <rect
      class={className}
      x={percent(place(from))}
      width={percent(place(to) - place(from))}
      height="8"
      y="0"
    >
      {title !== undefined && <title>{title}</title>}
    </rect>
  );
  return (
    <figure class="chart strip">
      <svg height="8" role="img" aria-label={`The door: ${wordsOf(stretches)}.`}>
        {bar("closed", since, now)}
        {stretches.map(({ kind, from, to }) =>
          bar(kind, from, to, `${names[kind]} for ${spanOf(to - from)}`),
        )}
      </svg>
      <figcaption class="axis">{`The door in that time: ${wordsOf(stretches)}`}</figcaption>
    </figure>
  );
};

/** "circuit open for 3 min 2 s, on hold for 40 s". */
function wordsOf(stretches: readonly Stretch[]): string {
  const kinds = (["circuit", "held", "paused"] as const).flatMap((kind) => {
    const ours = stretches.filter((stretch) => stretch.kind === kind);
    const sum = ours.reduce((total, { from, to }) => total + to - from, 0);
    return sum === 0 ? [] : [`${names[kind]} for ${spanOf(sum)}`];
  });
  return kinds.length === 0 ? "open all along" : kinds.join(", ");
}

function percent(x: number): string {
  return `${x.toFixed(2)}%`;
}
