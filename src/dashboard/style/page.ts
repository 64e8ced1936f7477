/** The page itself: text, headings, links, header and footer, and what keyboards and phones need. */
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
h1 { font-size: clamp(1.5rem, 4.2vw, 2.125rem); line-height: 1.2; font-weight: 600; letter-spacing: -0.022em; text-wrap: balance; }
h2 { font-size: 1.0625rem; line-height: 1.3; font-weight: 600; letter-spacing: -0.01em; }
h3 { font-size: 0.9375rem; font-weight: 600; }
ol, ul { list-style: none; }
code, pre, kbd { font-family: var(--mono); font-size: 0.8125rem; }
.wide { width: 100%; max-width: 74rem; margin-inline: auto; padding-inline: var(--gap); }
.top { border-bottom: 1px solid var(--line); }
.top > .wide { display: flex; align-items: center; gap: 0.25rem 1.5rem; min-height: 3.5rem; flex-wrap: wrap; }
.brand { display: inline-flex; align-items: center; gap: 0.5rem; font-weight: 650; letter-spacing: -0.015em; text-decoration: none; }
.brand svg { width: 1.375rem; height: 1.375rem; color: var(--accent); }
.top nav { display: flex; gap: 1.25rem; flex: 1; }
.top nav a { text-decoration: none; color: var(--soft); padding: 0.25rem 0; border-bottom: 1px solid transparent; }
.top nav a:hover { color: var(--ink); }
.top nav a[aria-current] { color: var(--ink); border-bottom-color: var(--accent); }
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
.foot .beat::before { content: ""; display: inline-block; width: 0.4375rem; height: 0.4375rem; margin-right: 0.5rem; border-radius: 50%; background: var(--accent); }
.foot .beat.is-late::before { background: var(--warn); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: 0.5rem; top: -4rem; background: var(--accent); color: var(--on-accent); padding: 0.5rem 1rem; border-radius: var(--radius); z-index: 2; }
.skip:focus { top: 0.5rem; color: var(--on-accent); }
@media (prefers-reduced-motion: no-preference) { a, button { transition: color 0.12s, background-color 0.12s, border-color 0.12s; } }
`;
