/**
 * Draws the cost of an event while one thing grows, as a small SVG picture: a row for each thing, a curve for each
 * cost. All curves of a cost share one scale, so that flat costs look flat. Both axes are logarithmic.
 */
import type { DimensionResults, DimensionStep } from "../results.ts";
import { escaped, one, STYLE } from "../storm/chart.ts";

const WIDTH = 760;
const TOP = 58;
const ROW = 74;
const PANEL = 40;
const LEFT = 224;
const GAP = 18;
const COLUMN = (WIDTH - LEFT) / 4;

type Cost = Readonly<{ title: string; value: (step: DimensionStep) => number }>;

const COSTS: readonly Cost[] = [
  { title: "rows read", value: ({ rowsRead }) => rowsRead },
  { title: "rows written", value: ({ rowsWritten }) => rowsWritten },
  { title: "queries", value: ({ queries }) => queries },
  { title: "a cron's queries", value: ({ cronQueries }) => cronQueries },
];
/** Lower costs are drawn as this one: a tenth of a row is too little to matter. */
const LEAST = 0.1;

export function growthPicture({ dimensions }: DimensionResults): string {
  const steps = dimensions.flatMap((dimension) => dimension.steps);
  const height = TOP + dimensions.length * ROW;
  const titles = COSTS.map(
    ({ title }, i) => `<text class="t" x="${one(LEFT + i * COLUMN)}" y="44">${escaped(title)}</text>`,
  );
  const rows = dimensions.map(({ what, steps: own }, row) => {
    const panels = COSTS.map((cost, i) => panel(own, cost, Math.max(...steps.map(cost.value)), i));
    return `<g transform="translate(0 ${TOP + row * ROW})">${label(what, own)}${panels.join("")}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="What an event costs while one thing grows">
<style>${STYLE}.g{fill:none}</style>
<text class="t" x="12" y="18">What an event costs while one thing grows, and the rest stays small</text>
${titles.join("")}
${rows.join("\n")}
</svg>
`;
}

/** Long names take two lines. */
function label(what: string, steps: readonly DimensionStep[]): string {
  const [name = "", ...rest] = what.split(/,? (?=with |of )/);
  const sizes = steps.map(({ size }) => size.toLocaleString("en"));
  const lines = [name, ...rest, `${sizes.at(0)} to ${sizes.at(-1)}`];
  return lines
    .map((line, i) => `<text${i === 0 ? ' class="t"' : ""} x="12" y="${14 + i * 16}">${escaped(line)}</text>`)
    .join("");
}

function panel(steps: readonly DimensionStep[], { value }: Cost, most: number, column: number): string {
  const left = LEFT + column * COLUMN;
  const width = COLUMN - GAP;
  const sizes = steps.map(({ size }) => Math.log(size + 1));
  const [from = 0, to = 1] = [sizes.at(0), sizes.at(-1)];
  const x = (i: number) => left + (((sizes[i] ?? 0) - from) / (to - from)) * width;
  const y = (cost: number) => PANEL * (1 - Math.log(Math.max(LEAST, cost) / LEAST) / Math.log(most / LEAST));
  const points = steps.map((step, i) => `${i === 0 ? "M" : "L"}${one(x(i))} ${one(y(value(step)))}`);
  const ends = [steps.at(0), steps.at(-1)].map((step, i) => {
    const place = i === 0 ? `x="${one(left)}"` : `x="${one(left + width)}" text-anchor="end"`;
    return `<text ${place} y="${PANEL + 14}">${step ? shown(value(step)) : ""}</text>`;
  });
  return `<path class="x" d="M${one(left)} ${PANEL}h${one(width)}"/><path class="a g" d="${points.join("")}"/>${ends.join("")}`;
}

function shown(cost: number): string {
  return cost.toLocaleString("en", { maximumSignificantDigits: cost < 100 ? 2 : 3 });
}
