/**
 * The style sheet: hairlines instead of boxes and one accent colour, which a portal's brand may replace. Colours of
 * state are never the accent: a red brand must not make healthy states red. Red and amber are reserved for problems.
 * All text has a contrast of at least 4.5 in both themes (WCAG 2.2, 1.4.3); successes and failures in charts have 3 to
 * each other and to the paper (1.4.11).
 */
import { authKinds } from "../../features/destinations/inputs.ts";
import { kindTexts } from "./setting-texts.ts";

export const tokens = /* css */ `
:root {
  color-scheme: light dark;
  --paper: light-dark(#fbfbf9, #0f1315);
  --raised: light-dark(#ffffff, #161b1e);
  --ink: light-dark(#1a1f22, #e7eaeb);
  --soft: light-dark(#5a646a, #9ba7ad);
  --line: light-dark(#e5e6e2, #262e32);
  --accent: light-dark(#0b6a72, #63c9c5);
  --on-accent: light-dark(#ffffff, #06201f);
  --accent-wash: light-dark(#e4f1f1, #12302f);
  --accent-faint: light-dark(#bfdfdf, #1d4745);
  --good: light-dark(#0b6a72, #63c9c5);
  --good-wash: light-dark(#e4f1f1, #12302f);
  --good-faint: light-dark(#bfdfdf, #1d4745);
  --bad: light-dark(#ae311c, #ff8d73);
  --bad-wash: light-dark(#faebe7, #391d17);
  --warn: light-dark(#855400, #e6b65c);
  --warn-wash: light-dark(#f8f0df, #312710);
  --succeeded: light-dark(#449ba0, #2c7b78);
  --failed: light-dark(#741a0c, #ffc4b6);
  --sans: Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  --gap: clamp(1rem, 3vw, 1.75rem);
  --radius: 0.5rem;
}
`;

/** The page: text, headings, links, header and footer, and what keyboard users and phones need. */
export const page = /* css */ `
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scrollbar-gutter: stable; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 400 0.9375rem/1.55 var(--sans); font-variant-numeric: tabular-nums;
  font-feature-settings: "cv05", "ss03"; -webkit-font-smoothing: antialiased;
}
a { color: inherit; text-decoration: underline; text-decoration-color: var(--line); text-underline-offset: 0.2em; }
a:hover { color: var(--accent); text-decoration-color: currentColor; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
h1, h2, h3, p, ol, ul, dl, dd, figure { margin: 0; padding: 0; }
h1, h2, h3, .lede, .crumb { overflow-wrap: anywhere; }
h1 { font-size: clamp(1.5rem, 4.2vw, 2.125rem); line-height: 1.2; font-weight: 600; letter-spacing: -0.022em; text-wrap: balance; }
h2 { font-size: 1.0625rem; line-height: 1.3; font-weight: 600; letter-spacing: -0.01em; }
h3 { font-size: 0.9375rem; font-weight: 600; }
ol, ul { list-style: none; }
code, pre, kbd { font-family: var(--mono); font-size: 0.8125rem; }
.frame { width: 100%; max-width: 74rem; margin-inline: auto; padding-inline: var(--gap); }
.top { border-bottom: 1px solid var(--line); }
.top > .frame { display: flex; align-items: center; gap: 0.25rem 1.25rem; min-height: 3.5rem; padding-block: 0.375rem; flex-wrap: wrap; }
.brand { display: inline-flex; align-items: center; gap: 0.5rem; font-weight: 650; letter-spacing: -0.015em; text-decoration: none; }
.brand svg { width: 1.375rem; height: 1.375rem; color: var(--accent); }
.top nav { display: flex; flex-wrap: wrap; gap: 0 1.25rem; flex: 1; }
.top nav a { text-decoration: none; color: var(--soft); padding: 0.25rem 0; border-bottom: 1px solid transparent; }
.top nav a:hover { color: var(--ink); }
.top nav a[aria-current], .tabs a[aria-current] { color: var(--ink); border-bottom-color: var(--accent); }
.menu { flex: 1; }
.menu > summary { color: var(--ink); }
.menu[open] > summary { margin-bottom: 0; }
.top .menu nav { gap: 0 0.875rem; font-size: 0.8125rem; }
@media (min-width: 64rem) {
  @supports selector(::details-content) {
    .menu > summary { display: none; }
    .menu::details-content { content-visibility: visible; display: block; height: auto; }
  }
}
@media (min-width: 46.01rem) {
  @supports selector(::details-content) {
    .on-phones > summary { display: none; }
    .on-phones::details-content { content-visibility: visible; display: grid; gap: inherit; height: auto; }
  }
}
@media (max-width: 46rem) { main { padding-bottom: 2rem; } .menu { order: 2; } .menu ~ .who { order: 3; } .menu nav { display: grid; grid-template-columns: 1fr 1fr; padding-block: 0.25rem; } }
.top search { flex: none; width: 10.5rem; }
.top search input { margin: 0; padding-block: 0.25rem; }
.top .who { display: flex; align-items: center; gap: 1rem; color: var(--soft); font-size: 0.875rem; }
main { padding-block: clamp(1.75rem, 4vw, 2.75rem) 3.5rem; display: grid; gap: clamp(2rem, 5vw, 3rem); grid-template-columns: minmax(0, 1fr); }
main:focus { outline: none; }
.lede { color: var(--soft); max-width: 44rem; margin-top: 0.5rem; text-wrap: pretty; }
.crumb { color: var(--soft); font-size: 0.875rem; margin-bottom: 0.5rem; }
.crumb a { text-decoration: none; }
.soft { color: var(--soft); }
.small { font-size: 0.8125rem; }
.nowrap { white-space: nowrap; }
.break { overflow-wrap: anywhere; }
.head { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 0.5rem 1.5rem; margin-bottom: 0.875rem; }
.foot { color: var(--soft); font-size: 0.8125rem; padding-bottom: 2.5rem; display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; }
.foot .live-indicator::before { content: ""; display: inline-block; width: 0.4375rem; height: 0.4375rem; margin-right: 0.5rem; border-radius: 50%; background: var(--good); }
.foot .live-indicator.is-late::before { background: var(--warn); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: 0.5rem; top: -4rem; background: var(--accent); color: var(--on-accent); padding: 0.5rem 1rem; border-radius: var(--radius); z-index: 2; }
.skip:focus { top: 0.5rem; color: var(--on-accent); }
@media (prefers-reduced-motion: no-preference) { a, button { transition: color 0.12s, background-color 0.12s, border-color 0.12s; } }
`;

/** The components of pages: status, figures, tables, panels, notices. */
export const parts = /* css */ `
.tone-good { --tone: var(--good); --wash: var(--good-wash); }
.tone-busy { --tone: var(--good); --wash: var(--good-wash); }
.tone-warn { --tone: var(--warn); --wash: var(--warn-wash); }
.tone-bad { --tone: var(--bad); --wash: var(--bad-wash); }
.tone-quiet { --tone: var(--soft); --wash: var(--line); }
.state { color: var(--tone); font-weight: 550; }
.state::before { content: ""; display: inline-block; width: 0.5rem; height: 0.5rem; margin-right: 0.5rem; border-radius: 50%; background: var(--tone); vertical-align: 0.06em; }
.state.tone-quiet::before, .state.tone-busy::before { background: none; box-shadow: inset 0 0 0 2px var(--tone); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.25rem, 1fr)); gap: 1.25rem var(--gap); }
.figures dt { color: var(--soft); font-size: 0.8125rem; }
.figures dd { font-size: 1.5rem; line-height: 1.25; font-weight: 550; letter-spacing: -0.02em; }
.figures dd small { font-size: 0.8125rem; font-weight: 400; letter-spacing: 0; color: var(--soft); margin-left: 0.25rem; }
.figures .is-bad dd { color: var(--bad); }
.status { border-left: 3px solid var(--tone); padding: 0.125rem 0 0.125rem 1.125rem; }
.status p:first-child { font-size: clamp(1.125rem, 2.6vw, 1.375rem); line-height: 1.35; letter-spacing: -0.012em; font-weight: 550; text-wrap: pretty; }
.status strong { color: var(--tone); font-weight: 600; }
.status p + p { color: var(--soft); margin-top: 0.25rem; }
table { width: 100%; border-collapse: collapse; }
caption { text-align: left; }
th { font-weight: 400; color: var(--soft); font-size: 0.8125rem; text-align: left; padding: 0 0.75rem 0.5rem; border-bottom: 1px solid var(--line); white-space: nowrap; vertical-align: baseline; }
td { padding: 0.6875rem 0.75rem; border-bottom: 1px solid var(--line); vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody th { color: var(--ink); font-size: inherit; padding: 0.5rem 0.75rem; white-space: normal; }
.compare { max-width: 44rem; }
.compare th { white-space: normal; }
.compare td { padding-block: 0.5rem; }
.num { text-align: right; white-space: nowrap; }
td a.name { font-weight: 550; text-decoration: none; }
td a.name::after { content: ""; position: absolute; inset: 0; }
tr:has(a.name) { position: relative; }
tr:has(a.name):hover { background: color-mix(in oklab, var(--accent-wash), transparent 55%); }
.lines { table-layout: fixed; }
.lines td, .lines th { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.lines td { padding-block: 0.5rem; }
.lines th { width: 8rem; }
.lines th.num { width: 9.5rem; }
.lines th.time { width: 9.75rem; }
.lines th.state-cell { width: 34%; }
.lines th.main { width: auto; }
.lines th.count { width: 6rem; }
.lines th.rate { width: 7rem; }
.lines th.brief { width: 24%; }
.lines th.spark { width: 8.5rem; }
.lines th.flight { width: 8.75rem; }
.lines th.scopes { width: 15rem; }
.lines th.pick { width: 2rem; }
.lines .sub { color: var(--soft); font-size: 0.8125rem; margin-left: 0.5rem; }
.lines .sub.labels { display: inline; }
.line { display: flex; align-items: baseline; }
.line:not(:has(> *)) { display: block; overflow: hidden; text-overflow: ellipsis; }
.line > * { min-width: 0; overflow: hidden; text-overflow: ellipsis; }
.line > .state, .line > .name { flex: none; max-width: 100%; }
.line > .sub ~ .sub { flex-shrink: 100; }
.lines a:focus-visible { outline-offset: -2px; }
.lines th a { text-decoration: none; }
.lines th[aria-sort] a { color: var(--ink); border-bottom: 1px solid var(--accent); }
.lines th[aria-sort="ascending"] a::after { content: " ↑" / ""; }
.lines th[aria-sort="descending"] a::after { content: " ↓" / ""; }
.labels { display: block; }
.lines .sub a { position: relative; z-index: 1; color: inherit; }
.is-bad { color: var(--bad); }
.scroll { overflow-x: auto; }
.tabs { display: flex; flex-wrap: wrap; gap: 0.25rem 1.125rem; font-size: 0.875rem; }
.tabs a { text-decoration: none; color: var(--soft); padding: 0.125rem 0; border-bottom: 1px solid transparent; }
.head .states { flex-basis: 100%; }
.notice { background: var(--wash); border-radius: var(--radius); padding: 0.75rem 1rem; }
.notice.tone-bad, .notice.tone-warn { color: var(--tone); }
.notice ul { margin-top: 0.25rem; }
.copy { position: relative; }
.copy > pre::before { content: ""; float: right; width: 4.25rem; height: 1.25rem; }
pre { margin: 0; background: var(--raised); border: 1px solid var(--line); border-radius: var(--radius); padding: 0.875rem 1rem; overflow: auto; max-height: 26rem; line-height: 1.6; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 2; }
.copy > button { position: absolute; top: 0.5rem; right: 0.5rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: clamp(2rem, 5vw, 3rem); align-items: start; }
.column { display: grid; gap: clamp(2rem, 5vw, 3rem); grid-template-columns: minmax(0, 1fr); }
.delivery { padding: 1rem 0 0.75rem; border-top: 1px solid var(--line); }
.delivery .head { margin-bottom: 0.125rem; }
.delivery progress { margin-block: 0.625rem 0.5rem; }
.delivery > .actions, .lines ~ .actions { margin-top: 0.75rem; }
.delivery > form { display: flex; flex-wrap: wrap; align-items: center; gap: 0.25rem 0.75rem; margin-top: 0.5rem; }
.delivery > form > .hint { flex: 1 14rem; margin-top: 0; }
.delivery > form + .log { margin-top: 0.5rem; }
p + form.stack, .stack + .notice, .notice + .lines, ul + .scroll { margin-top: 1rem; }
.stack + details { margin-top: 0.875rem; }
.delivery .chart { margin: 0.75rem 0 0.5rem; }
.narrow { max-width: 40rem; }
.narrow h1 { margin-bottom: 1.5rem; }
.narrow .lede { margin-bottom: 1.5rem; }
.stack { display: grid; gap: 1.125rem; grid-template-columns: minmax(0, 1fr); }
.log li { display: grid; grid-template-columns: 8.5rem minmax(0, 1fr); gap: 0.75rem; padding: 0.4375rem 0; border-bottom: 1px solid var(--line); }
.log li:last-child { border-bottom: 0; }
.log time { color: var(--soft); white-space: nowrap; }
.summary { color: var(--soft); margin-bottom: 1rem; }
.empty { color: var(--soft); padding: 0.75rem 0; }
.changes { margin-top: 0.375rem; }
.changes del { color: var(--soft); }
.changes ins { text-decoration: none; }
.names { columns: 14rem; }
.names li { padding: 0.25rem 0; break-inside: avoid; }
.chips { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; margin-bottom: 0.75rem; font-size: 0.8125rem; }
.chip { border: 1px solid var(--line); border-radius: 1rem; padding: 0.125rem 0.75rem; text-decoration: none; color: var(--ink); }
.chip:hover { border-color: var(--accent); color: var(--accent); }
td.pick { width: 2rem; }
td.num a, td.pick { position: relative; z-index: 1; }
.pager { display: flex; gap: 1.25rem; margin-top: 1rem; font-size: 0.875rem; }
`;

/** Rules that hide the inputs of a group which are for other choices of a select. */
function onlyFor(select: string, group: string, choices: readonly string[]): string {
  const rules = choices.map(
    (choice) =>
      `form:has([name="${select}"] option[value="${choice}"]:checked) .${group} .only:not(.for-${choice}) { display: none; }`,
  );
  return rules.join("\n");
}

/** Forms and buttons. */
export const forms = /* css */ `
button, .button {
  font: inherit; font-size: 0.875rem; font-weight: 550; color: var(--ink); background: var(--raised); cursor: pointer;
  border: 1px solid var(--line); border-radius: var(--radius); padding: 0.375rem 0.8125rem; text-decoration: none; display: inline-block;
}
button:hover, .button:hover { border-color: var(--accent); color: var(--accent); }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.main:hover { background: color-mix(in oklab, var(--accent), var(--ink) 18%); color: var(--on-accent); }
button.plain { border: 0; background: none; padding: 0.25rem 0; color: var(--soft); font-weight: 400; }
button.tiny { font-size: 0.75rem; padding: 0.1875rem 0.5625rem; }
button[disabled] { opacity: 0.5; cursor: default; }
.actions { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; }
.actions form { display: contents; }
label { display: block; font-size: 0.8125rem; color: var(--soft); }
input, select, textarea {
  font: inherit; font-variant-numeric: tabular-nums; color: var(--ink); background: var(--raised); width: 100%; margin-top: 0.25rem;
  border: 1px solid color-mix(in oklab, var(--line), var(--soft) 40%); border-radius: var(--radius); padding: 0.4375rem 0.6875rem;
}
input:focus, select:focus, textarea:focus { outline: 2px solid var(--accent); outline-offset: 0; border-color: transparent; }
[aria-invalid="true"] { border-color: var(--bad); }
label.check { color: var(--ink); font-size: 0.875rem; }
.check input { width: auto; }
:root:not([data-scripted]) .scripted { display: none; }
button.main.bad { background: var(--bad); border-color: var(--bad); color: var(--paper); }
a.danger { color: var(--bad); font-size: 0.875rem; }
${onlyFor("kind", "by-kind", Object.keys(kindTexts))}
form:has([name="auth_kind"] option[value=""]:checked) .by-auth .only { display: none; }
${onlyFor("auth_kind", "by-auth", Object.keys(authKinds))}
input[type="checkbox"], input[type="radio"] { width: auto; margin: 0 0.375rem 0 0; accent-color: var(--accent); }
textarea { font-family: var(--mono); font-size: 0.8125rem; min-height: 7rem; resize: vertical; }
.tall textarea { min-height: 20rem; }
.actions select { width: auto; margin-top: 0; }
fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
legend { padding: 0; margin-bottom: 0.625rem; font-size: 0.875rem; font-weight: 550; }
.fields { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.875rem 1.125rem; }
.fields > :is(label:not(.check), div) > :is(select, input) { min-height: 2.375rem; }
.fields .all { grid-column: 1 / -1; }
.fields:not(:has(.hint)) { align-items: end; }
.hint { color: var(--soft); font-size: 0.8125rem; margin-top: 0.25rem; }
fieldset > .hint + .fields { margin-top: 0.625rem; }
.fault { color: var(--bad); font-size: 0.8125rem; margin-top: 0.25rem; }
details > summary { cursor: pointer; color: var(--soft); font-size: 0.875rem; width: fit-content; }
details > summary:hover { color: var(--accent); }
details[open] > summary { margin-bottom: 0.875rem; }
details + details { margin-top: 0.625rem; }
details .copy { margin-bottom: 1rem; }
.signed-out { max-width: 25rem; margin: clamp(2rem, 12vh, 8rem) auto; }
.signed-out main { padding: 0; gap: 1.5rem; }
.signed-out .actions button { flex: 1; }
@media (max-width: 46rem) {
  .top search { flex: 1 10.5rem; }
  .on-phones .figures { margin-top: 1.25rem; }
  .lines .wide, .lines .state-cell .sub { display: none; }
  .lines td, .lines th { padding-inline: 0.375rem; font-size: 0.8125rem; line-height: 1.35; }
  .lines td { padding-block: 0.1875rem; }
  .lines th.state-cell, .lines th.brief { width: 7.5rem; }
  .lines th.num { width: 6rem; }
  .lines th.time { width: 7.75rem; }
  .lines th.count { width: 4.5rem; }
  .tabs { gap: 0.25rem 0.75rem; }
  .log li { grid-template-columns: 1fr; gap: 0; }
}
@media (max-width: 26rem) { .lines .time { display: none; } }
@media print { .top .menu, .actions, .foot { display: none; } }
`;

/** Charts: the server draws them as SVG; they are coloured here, so that they follow the theme. */
export const charts = /* css */ `
.chart { display: block; }
.chart svg { display: block; width: 100%; overflow: visible; }
.chart .succeeded, .spark .succeeded { fill: var(--succeeded); }
.chart .failed, .spark .failed { fill: var(--failed); }
.chart .baseline, .spark .baseline { fill: var(--line); }
.chart .grid { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }
.axis { display: flex; justify-content: space-between; color: var(--soft); font-size: 0.75rem; padding-top: 0.375rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.125rem; color: var(--soft); font-size: 0.8125rem; }
.legend span::before { content: ""; display: inline-block; width: 0.625rem; height: 0.625rem; border-radius: 2px; margin-right: 0.4375rem; background: var(--tone); }
.legend .tone-good { --tone: var(--succeeded); }
.legend .tone-bad { --tone: var(--failed); }
.tall svg { height: 8.5rem; }
.spark { vertical-align: middle; }
.spark svg { display: block; width: 7rem; height: 1.75rem; }
.fill { display: inline-block; width: 3.25rem; height: 0.375rem; margin-right: 0.5rem; vertical-align: 0.1em; }
.fill .limit { fill: var(--line); }
.fill .used { fill: var(--good); }
.fill.is-full .used { fill: var(--warn); }
.timeline .closed { fill: var(--good-faint); }
.timeline .circuit { fill: var(--bad); }
.timeline .held { fill: var(--warn); }
.timeline .paused { fill: var(--soft); }
.timeline { margin-top: 0.75rem; }
.timeline svg { border-radius: 4px; overflow: hidden; }
.attempts .past { stroke: var(--line); stroke-width: 2; vector-effect: non-scaling-stroke; }
.attempts .future { stroke: var(--line); stroke-width: 2; stroke-dasharray: 2 5; vector-effect: non-scaling-stroke; }
.attempts .now { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; }
.attempts text, .simulation text { fill: var(--soft); font-size: 11px; font-family: var(--sans); }
.attempts .dot.succeeded, .attempts .dot.failed { stroke: var(--paper); stroke-width: 2; }
.attempts .dot.next { fill: var(--paper); stroke: var(--good); stroke-width: 2; }
.attempts .dot.accepted { fill: var(--soft); }
.attempts .end { stroke: var(--bad); stroke-width: 2; }
.simulation .band { fill: var(--accent); opacity: 0.28; }
.simulation .mean { fill: var(--accent); }
.simulation .limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
.simulation .grid { stroke-dasharray: 1 4; }
.panel figcaption { font-size: 0.875rem; font-weight: 550; margin-bottom: 0.375rem; }
.panel svg { height: 6.5rem; }
.panel + .axis { margin-top: -0.75rem; }
.panel .outage { fill: var(--bad-wash); }
.panel .capacity { stroke: var(--soft); stroke-dasharray: 4 4; fill: none; vector-effect: non-scaling-stroke; }
.panel .axis-line { stroke: var(--line); fill: none; vector-effect: non-scaling-stroke; }
progress { appearance: none; display: block; width: 100%; height: 0.5rem; border: 0; border-radius: 0.25rem; background: var(--line); overflow: hidden; }
progress::-webkit-progress-bar { background: var(--line); }
progress::-webkit-progress-value { background: var(--accent); }
progress::-moz-progress-bar { background: var(--accent); }
`;
