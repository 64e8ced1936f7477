/** Styles of the portal's pages besides those of the dashboard's. */
export const portalStyle = /* css */ `
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; }
.brand img { display: block; max-height: 2rem; max-width: 10rem; }
.brand span { overflow-wrap: anywhere; }
.top .who a { color: var(--soft); }
.foot form { display: flex; flex-wrap: wrap; gap: 0.5rem 0.75rem; align-items: end; }
.foot label { display: flex; align-items: baseline; gap: 0.375rem; }
.log li { grid-template-columns: 12rem minmax(0, 1fr); }
.foot select { width: auto; padding-block: 0.125rem; font-size: 0.8125rem; }
.foot { align-items: end; padding-top: 1.5rem; border-top: 1px solid var(--line); }
.languages { display: flex; gap: 1rem; font-size: 0.8125rem; }
.check { display: flex; align-items: baseline; gap: 0.25rem; color: var(--ink); font-size: 0.9375rem; }
.check input { flex: none; }
.choices { display: grid; gap: 0.625rem; max-height: 24rem; overflow: auto; border: 1px solid var(--line); border-radius: var(--radius); padding: 0.75rem 0.875rem; }
.choices details { margin: 0.125rem 0 0 1.375rem; }
.choices .hint { margin: 0 0 0 1.375rem; }
.lines th.traffic { width: 14rem; }
textarea.short { min-height: 4.5rem; }
.figures + .legend { margin: 1.5rem 0 0.75rem; }
.lede + table { margin-top: 1.25rem; }
ol.steps, ul.rules { list-style: revert; padding-left: 1.25rem; display: grid; gap: 0.375rem; }
button.danger { color: var(--bad); }
button.danger:hover { border-color: var(--bad); color: var(--bad); }
@media (max-width: 46rem) {
  .log li { grid-template-columns: minmax(0, 1fr); }
}
`;
