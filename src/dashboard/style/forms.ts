/** What a person types into and presses. */
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
input[aria-invalid="true"] { border-color: var(--bad); }
input[type="checkbox"] { width: auto; margin: 0 0.375rem 0 0; accent-color: var(--accent); }
textarea { font-family: var(--mono); font-size: 0.8125rem; min-height: 7rem; resize: vertical; }
fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
legend { padding: 0; margin-bottom: 0.625rem; font-size: 0.875rem; font-weight: 550; }
.fields { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.875rem 1.125rem; }
.fields .all { grid-column: 1 / -1; }
.hint { color: var(--soft); font-size: 0.8125rem; margin-top: 0.25rem; }
.fault { color: var(--bad); font-size: 0.8125rem; margin-top: 0.25rem; }
details > summary { cursor: pointer; color: var(--soft); font-size: 0.875rem; width: fit-content; }
details > summary:hover { color: var(--accent); }
details[open] > summary { margin-bottom: 0.875rem; }
details + details { margin-top: 0.625rem; }
details .copy { margin-bottom: 1rem; }
.gatehouse { max-width: 25rem; margin: clamp(2rem, 12vh, 8rem) auto; }
.gatehouse main { padding: 0; gap: 1.5rem; }
@media (max-width: 46rem) {
  .cards thead { position: absolute; clip-path: inset(50%); }
  .cards tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0.375rem 1rem; padding: 1rem 0; border-bottom: 1px solid var(--line); }
  .cards.thin tr { grid-template-columns: 1fr 1fr 1fr; padding: 0.75rem 0; }
  .cards td { border: 0; padding: 0; text-align: left; white-space: normal; }
  .cards td[data-label]::before { content: attr(data-label); display: block; color: var(--soft); font-size: 0.75rem; }
  .cards td.all { grid-column: 1 / -1; }
  .cards td.spark { display: none; }
  .log li { grid-template-columns: 1fr; gap: 0; }
  .facts { grid-template-columns: 1fr; gap: 0; }
  .facts dd { margin-bottom: 0.5rem; }
}
@media print { .top nav, .actions, .foot { display: none; } }
`;
