/** The parts that pages are made of: doors, figures, tables, panels, notices. */
export const parts = /* css */ `
.tone-good { --tone: var(--accent); --wash: var(--accent-wash); }
.tone-busy { --tone: var(--accent); --wash: var(--accent-wash); }
.tone-warn { --tone: var(--warn); --wash: var(--warn-wash); }
.tone-bad { --tone: var(--bad); --wash: var(--bad-wash); }
.tone-quiet { --tone: var(--soft); --wash: var(--line); }
.word { color: var(--tone); font-weight: 550; }
.word::before { content: ""; display: inline-block; width: 0.5rem; height: 0.5rem; margin-right: 0.5rem; border-radius: 50%; background: var(--tone); vertical-align: 0.06em; }
.word.tone-quiet::before, .word.tone-busy::before { background: none; box-shadow: inset 0 0 0 2px var(--tone); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.25rem, 1fr)); gap: 1.25rem var(--gap); }
.figures dt { color: var(--soft); font-size: 0.8125rem; }
.figures dd { font-size: 1.5rem; line-height: 1.25; font-weight: 550; letter-spacing: -0.02em; }
.figures dd small { font-size: 0.8125rem; font-weight: 400; letter-spacing: 0; color: var(--soft); margin-left: 0.25rem; }
.figures .is-bad dd { color: var(--bad); }
.figures .is-warn dd { color: var(--warn); }
.door { border-left: 3px solid var(--tone); padding: 0.125rem 0 0.125rem 1.125rem; }
.door p:first-child { font-size: clamp(1.125rem, 2.6vw, 1.375rem); line-height: 1.35; letter-spacing: -0.012em; font-weight: 550; text-wrap: pretty; }
.door strong { color: var(--tone); font-weight: 600; }
.door p + p { color: var(--soft); margin-top: 0.25rem; }
table { width: 100%; border-collapse: collapse; }
caption { text-align: left; }
th { font-weight: 400; color: var(--soft); font-size: 0.8125rem; text-align: left; padding: 0 0.75rem 0.5rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
td { padding: 0.6875rem 0.75rem; border-bottom: 1px solid var(--line); vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody th { color: var(--ink); font-size: inherit; padding: 0.5rem 0.75rem; white-space: normal; }
.compare { max-width: 44rem; }
.compare td { padding-block: 0.5rem; }
.num { text-align: right; white-space: nowrap; }
td a.name { font-weight: 550; text-decoration: none; }
td a.name::after { content: ""; position: absolute; inset: 0; }
tr:has(a.name) { position: relative; }
tr:has(a.name):hover { background: color-mix(in oklab, var(--accent-wash), transparent 55%); }
td .sub { color: var(--soft); font-size: 0.8125rem; display: block; overflow-wrap: anywhere; }
.is-bad { color: var(--bad); }
.is-warn { color: var(--warn); }
.scroll { overflow-x: auto; }
.tabs { display: flex; flex-wrap: wrap; gap: 0.25rem 1.125rem; font-size: 0.875rem; }
.tabs a { text-decoration: none; color: var(--soft); padding: 0.125rem 0; border-bottom: 1px solid transparent; }
.tabs a[aria-current] { color: var(--ink); border-bottom-color: var(--accent); }
.notice { background: var(--wash); border-radius: var(--radius); padding: 0.75rem 1rem; }
.notice.tone-bad, .notice.tone-warn { color: var(--tone); }
.notice ul { margin-top: 0.25rem; }
.copy { position: relative; }
pre { margin: 0; background: var(--raised); border: 1px solid var(--line); border-radius: var(--radius); padding: 0.875rem 1rem; overflow: auto; max-height: 26rem; line-height: 1.6; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 2; }
.copy > button { position: absolute; top: 0.5rem; right: 0.5rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: clamp(2rem, 5vw, 3rem); align-items: start; }
.column { display: grid; gap: clamp(2rem, 5vw, 3rem); grid-template-columns: minmax(0, 1fr); }
.delivery { padding: 1rem 0 0.75rem; border-top: 1px solid var(--line); }
.delivery .head { margin-bottom: 0.125rem; }
.delivery progress { margin-block: 0.625rem 0.5rem; }
.delivery > .actions { margin-top: 0.75rem; }
p + form.stack { margin-top: 1rem; }
.delivery .chart { margin: 0.75rem 0 0.5rem; }
.narrow { max-width: 40rem; }
.narrow h1 { margin-bottom: 1.5rem; }
.narrow .lede { margin-bottom: 1.5rem; }
.stack { display: grid; gap: 1.125rem; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.375rem 1.25rem; }
.facts dt { color: var(--soft); }
.facts dd { overflow-wrap: anywhere; }
.log li { display: grid; grid-template-columns: 8.5rem minmax(0, 1fr); gap: 0.75rem; padding: 0.4375rem 0; border-bottom: 1px solid var(--line); }
.log li:last-child { border-bottom: 0; }
.log time { color: var(--soft); white-space: nowrap; }
.said { color: var(--soft); margin-bottom: 1rem; }
.empty { color: var(--soft); padding: 0.75rem 0; }
.pager { display: flex; gap: 1.25rem; margin-top: 1rem; font-size: 0.875rem; }
`;
