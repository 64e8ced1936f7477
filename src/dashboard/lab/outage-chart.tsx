/** What an outage looks like from the receiver: requests a second, with the gate and without, on one scale. */
import type { FC } from "hono/jsx";
import { countOf, spanOf } from "../figures.ts";
import { fullestOf, type Point } from "./arrivals.ts";
import type { Comparison } from "./outages.ts";

const WIDTH = 720;
const HEIGHT = 100;
/** The outage begins after a minute. */
const BEFORE_S = 60;

export const OutageChart: FC<{ comparison: Comparison }> = ({ comparison: { outage, gated, alone } }) => {
  const end = BEFORE_S + outage.lastsMs / 1000;
  const seconds = Math.ceil(end * 1.7 + 240);
  const panels = [
    { name: "With the gate", points: fullestOf(gated, seconds) },
    { name: "The same policy without it", points: fullestOf(alone, seconds) },
  ];
  const top = Math.max(
    1.15 * gated.capacity,
    ...panels.flatMap(({ points }) => points.map((p) => p.requests)),
  );
  const scale: Scale = {
    x: (second) => (second / seconds) * WIDTH,
    // The square root: a herd and a trickle are to be seen in the same picture.
    y: (requests) => HEIGHT * (1 - Math.sqrt(requests / top)),
  };
  return (
    <>
      {panels.map(({ name, points }) => (
        <figure class="chart lab panel">
          <figcaption>{name}</figcaption>
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${name}: at most ${countOf(Math.max(...points.map((p) => p.requests)))} requests in a second.`}
          >
            <rect
              class="outage"
              x={scale.x(BEFORE_S)}
              width={scale.x(end - BEFORE_S)}
              y="0"
              height={HEIGHT}
            />
            <path class="well" d={area(points, ({ requests }) => requests, scale)} />
            <path class="ill" d={area(points, ({ failed }) => failed, scale)} />
            <path class="capacity" d={`M0 ${one(scale.y(gated.capacity))}H${WIDTH}`} />
            <path class="ground" d={`M0 ${HEIGHT}H${WIDTH}`} />
          </svg>
        </figure>
      ))}
      <div class="axis" aria-hidden="true">
        <span>{`a minute before`}</span>
        <span>{`dashed: ${countOf(gated.capacity)} a second, what it can take`}</span>
        <span>{`${spanOf((seconds - end) * 1000)} after it`}</span>
      </div>
    </>
  );
};

type Scale = Readonly<{ x: (second: number) => number; y: (requests: number) => number }>;

/** From the ground up and back to it. */
function area(points: readonly Point[], pick: (point: Point) => number, { x, y }: Scale): string {
  const line = points.map((point) => `L${one(x(point.second))} ${one(y(pick(point)))}`).join("");
  return `M0 ${HEIGHT}${line}V${HEIGHT}z`;
}

function one(n: number): string {
  return String(Math.round(n * 10) / 10);
}
