/**
 * The look, in a few decisions: paper and ink, hairlines instead of boxes, one accent. Red and amber are
 * kept for trouble, so that a page without any is a page without trouble. Every pair of colours that text
 * is set in has a contrast of at least 4.5 (WCAG 2.2, 1.4.3), in both themes.
 */
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
  --bad: light-dark(#ae311c, #ff8d73);
  --bad-wash: light-dark(#faebe7, #391d17);
  --warn: light-dark(#855400, #e6b65c);
  --warn-wash: light-dark(#f8f0df, #312710);
  --sans: Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  --gap: clamp(1rem, 3vw, 1.75rem);
  --radius: 0.5rem;
}
`;
