/** Charts: drawn by the server as SVG, coloured here, so that they follow the theme. */
export const charts = /* css */ `
.chart { display: block; }
.chart svg { display: block; width: 100%; overflow: visible; }
.chart .well { fill: var(--accent); }
.chart .ill { fill: var(--bad); }
.chart .ghost { fill: var(--line); }
.chart .grid { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }
.axis { display: flex; justify-content: space-between; color: var(--soft); font-size: 0.75rem; padding-top: 0.375rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.125rem; color: var(--soft); font-size: 0.8125rem; }
.legend span::before { content: ""; display: inline-block; width: 0.625rem; height: 0.625rem; border-radius: 2px; margin-right: 0.4375rem; background: var(--tone); }
.tall svg { height: 8.5rem; }
.low svg { height: 4rem; }
.spark { vertical-align: middle; }
.spark svg { display: block; width: 7rem; height: 1.75rem; }
.spark .well { fill: var(--accent); }
.spark .ill { fill: var(--bad); }
.spark .ghost { fill: var(--line); }
.fill { display: inline-block; width: 3.25rem; height: 0.375rem; margin-right: 0.5rem; vertical-align: 0.1em; }
.fill .most { fill: var(--line); }
.fill .now { fill: var(--accent); }
.fill.is-full .now { fill: var(--warn); }
.strip .closed { fill: var(--accent-faint); }
.strip .circuit { fill: var(--bad); }
.strip .held { fill: var(--warn); }
.strip .paused { fill: var(--soft); }
.strip { margin-top: 0.75rem; }
.strip svg { border-radius: 4px; overflow: hidden; }
.track .line { stroke: var(--line); stroke-width: 2; vector-effect: non-scaling-stroke; }
.track .wait { stroke: var(--line); stroke-width: 2; stroke-dasharray: 2 5; vector-effect: non-scaling-stroke; }
.track .now { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; }
.track text { fill: var(--soft); font-size: 11px; font-family: var(--sans); }
.track .dot.well, .track .dot.ill { stroke: var(--paper); stroke-width: 2; }
.track .dot.next { fill: var(--paper); stroke: var(--accent); stroke-width: 2; }
.track .dot.accepted { fill: var(--soft); }
.track .end { stroke: var(--bad); stroke-width: 2; }
.lab .band { fill: var(--accent); opacity: 0.28; }
.lab .mean { fill: var(--accent); }
.lab .limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
.lab text { fill: var(--soft); font-size: 11px; font-family: var(--sans); }
.lab .grid { stroke-dasharray: 1 4; }
.panel figcaption { font-size: 0.875rem; font-weight: 550; margin-bottom: 0.375rem; }
.panel svg { height: 6.5rem; }
.panel + .axis { margin-top: -0.75rem; }
.panel .outage { fill: var(--bad-wash); }
.panel .well { fill: var(--accent-faint); }
.panel .ill { fill: var(--bad); }
.panel .capacity { stroke: var(--soft); stroke-dasharray: 4 4; fill: none; vector-effect: non-scaling-stroke; }
.panel .ground { stroke: var(--line); fill: none; vector-effect: non-scaling-stroke; }
progress { appearance: none; display: block; width: 100%; height: 0.5rem; border: 0; border-radius: 0.25rem; background: var(--line); overflow: hidden; }
progress::-webkit-progress-bar { background: var(--line); }
progress::-webkit-progress-value { background: var(--accent); }
progress::-moz-progress-bar { background: var(--accent); }
`;
