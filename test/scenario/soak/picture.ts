/** Memory, backlog and stored bundles of a soak over its time, as a small SVG picture; kills and deployments are marked. */
import { escaped, one, STYLE } from "../../../bench/storm/chart.ts";
import type { SoakFigures } from "./run.ts";
import type { Sample } from "./vitals.ts";

const WIDTH = 760;
const PANEL = 96;
const GAP = 34;
const LEFT = 56;
const TOP = 40;

type Panel = Readonly<{ title: string; value: (sample: Sample) => number }>;

const PANELS: readonly Panel[] = [
  { title: "Memory that the isolates hold, MB", value: ({ memoryBytes }) => memoryBytes / 1e6 },
  { title: "Deliveries that have not ended", value: ({ open }) => open },
  { title: "Bundles stored", value: ({ rows }) => rows.bundles ?? 0 },
];

export function picture({ samples, marks, loadMs, drainMs }: SoakFigures): string {
  const totalMs = loadMs + drainMs;
  const x = (at: number) => LEFT + (at / totalMs) * (WIDTH - LEFT - 12);
  const height = TOP + PANELS.length * (PANEL + GAP);
  const deployments = marks.flatMap(({ at, what }, i) => {
    if (what !== "deploy") return [];
    const back = marks.slice(i).find((mark) => mark.what === "back")?.at ?? at;
    return [`<rect class="o" x="${one(x(at))}" y="0" width="${one(x(back) - x(at))}" height="${PANEL}"/>`];
  });
  const kills = marks
    .filter(({ what }) => what === "kill")
    .map(({ at }) => `<path class="c" d="M${one(x(at))} 0V${PANEL}"/>`);
  const panels = PANELS.map(({ title, value }, i) => {
    const most = Math.max(1, ...samples.map(value));
    const points = samples.map(
      (sample) => `L${one(x(sample.at))} ${one(PANEL - (value(sample) / most) * PANEL)}`,
    );
    const [first, last] = [samples.at(0)?.at ?? 0, samples.at(-1)?.at ?? 0];
    return `<g transform="translate(0 ${TOP + i * (PANEL + GAP)})">${deployments.join("")}${kills.join("")}
<path class="a" d="M${one(x(first))} ${PANEL}${points.join("")}L${one(x(last))} ${PANEL}z"/>
<path class="x" d="M${LEFT} ${PANEL}H${WIDTH - 12}"/>
<text x="${LEFT - 6}" y="12" text-anchor="end">${Math.round(most)}</text><text class="t" x="${LEFT + 6}" y="-6">${escaped(title)}</text>
<text x="${WIDTH - 12}" y="${PANEL + 15}" text-anchor="end">${Math.round(totalMs / 60_000)} min</text></g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="Memory, backlog and stored bundles during the soak">
<style>${STYLE}</style>
<text class="t" x="${LEFT}" y="18">Kills are dashed lines, deployments to the former version and back are shaded</text>
${panels.join("\n")}
</svg>
`;
}
