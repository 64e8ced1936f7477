/**
 * Draws arrivals per second over time as small SVG pictures: one panel per sender, all on the same scale, the capacity
 * as a line, the trouble shaded. Readable on light and on dark pages; no scripts, no embedded fonts.
 */
import { capacityOf } from "../../src/simulator/receiver.ts";
import type { Scenario } from "../../src/simulator/scenario.ts";

export type Panel = Readonly<{ name: string; arrivals: readonly number[] }>;

const WIDTH = 760;
const PANEL = 96;
const GAP = 34;
const LEFT = 46;
const TOP = 40;
/** Points of one curve: each shows the fullest second of its interval. */
const POINTS = 360;

/** Colours of a picture, for light and dark pages: `a` is a curve, `o` trouble, `c` a limit, `x` an axis, `t` a title. */
export const STYLE = `text{font:12px system-ui,sans-serif;fill:#57606a}.t{font-weight:600;font-size:14px;fill:#24292f}
.a{fill:#0969da;fill-opacity:.25;stroke:#0969da;stroke-width:1.2;stroke-linejoin:round}
.o{fill:#cf222e;fill-opacity:.1}.c{stroke:#1a7f37;stroke-dasharray:5 4}.x{stroke:#8c959f}
@media(prefers-color-scheme:dark){text{fill:#8b949e}.t{fill:#e6edf3}.a{fill:#58a6ff;stroke:#58a6ff}
.o{fill:#f85149;fill-opacity:.18}.c{stroke:#3fb950}}`;

type Scale = Readonly<{
  x: (second: number) => number;
  y: (rate: number) => number;
  seconds: number;
  most: number;
}>;

/** @param seconds how long the time axis is, from the beginning */
export function chart(scenario: Scenario, panels: readonly Panel[], seconds: number): string {
  const capacity = capacityOf(scenario.server);
  const curves = panels.map(({ arrivals }) => fullest(arrivals, seconds));
  const scale = scaleFor(seconds, Math.max(2.2 * capacity, ...curves.flat().map(({ rate }) => rate)));
  const height = TOP + panels.length * (PANEL + GAP);
  const drawn = panels.map(({ name }, i) =>
    panel(name, curves[i] ?? [], scenario, capacity, scale, TOP + i * (PANEL + GAP)),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(scenario.title)}">
<style>${STYLE}</style>
<text class="t" x="${LEFT}" y="18">${escaped(scenario.title)}: requests per second at the receiver</text>
${drawn.join("\n")}
</svg>
`;
}

/** Uses the square root of the rate, so that a herd and a trickle are both visible in one picture. */
function scaleFor(seconds: number, most: number): Scale {
  return {
    x: (second) => LEFT + (second / seconds) * (WIDTH - LEFT - 12),
    y: (rate) => PANEL - Math.sqrt(rate / most) * PANEL,
    seconds,
    most,
  };
}

function panel(
  name: string,
  curve: readonly Point[],
  { troubles }: Scenario,
  capacity: number,
  { x, y, seconds, most }: Scale,
  top: number,
): string {
  const shades = troubles.map(({ from, to }) => {
    const [left, right] = [x(from / 1000), x(Math.min(seconds, to / 1000))];
    return `<rect class="o" x="${one(left)}" y="0" width="${one(right - left)}" height="${PANEL}"/>`;
  });
  const path = curve.map(({ second, rate }) => `L${one(x(second))} ${one(y(rate))}`).join("");
  const ticks = [capacity, most].map(
    (rate) => `<text x="${LEFT - 6}" y="${one(y(rate) + 4)}" text-anchor="end">${Math.round(rate)}</text>`,
  );
  return `<g transform="translate(0 ${top})">${shades.join("")}
<path class="a" d="M${LEFT} ${PANEL}${path}V${PANEL}z"/>
<path class="c" d="M${LEFT} ${one(y(capacity))}H${WIDTH - 12}"/><path class="x" d="M${LEFT} ${PANEL}H${WIDTH - 12}"/>
${ticks.join("")}<text class="t" x="${LEFT + 6}" y="14">${escaped(name)}</text><text x="${WIDTH - 12}" y="${PANEL + 15}" text-anchor="end">${timeLabel(seconds)}</text></g>`;
}

type Point = Readonly<{ second: number; rate: number }>;

function fullest(arrivals: readonly number[], seconds: number): Point[] {
  const stretch = Math.max(1, Math.ceil(seconds / POINTS));
  return Array.from({ length: Math.ceil(seconds / stretch) }, (_, i) => {
    const part = Array.from(arrivals.slice(i * stretch, (i + 1) * stretch), (n) => n ?? 0);
    return { second: i * stretch, rate: Math.max(0, ...part) };
  });
}

/** A coordinate. */
export function one(n: number): string {
  return String(Math.round(n * 10) / 10);
}

function timeLabel(seconds: number): string {
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
