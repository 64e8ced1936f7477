/**
 * The portal's script, besides that of the dashboard: it opens a link automatically if the page is in a frame, and reports
 * the portal's height to the page around the frame. Every page works without it.
 *
 * A message goes to the page around the frame only if the deployment names its origin.
 */
export const portalScript = /* js */ `"use strict";
(() => {
  const isFramed = window.parent !== window;
  const origins = JSON.parse(document.body.dataset.origins ?? "[]");

  /** The origin of the page around the frame, where the browser or the address of the first page names it. */
  function parentOrigin() {
    const outer = location.ancestorOrigins?.[0] ?? originOf(document.referrer);
    if (origins.includes(outer)) sessionStorage.setItem("parent", outer);
    const known = sessionStorage.getItem("parent");
    if (origins.includes(known)) return known;
    return origins.length === 1 ? origins[0] : undefined;
  }

  function originOf(url) {
    return URL.canParse(url) ? new URL(url).origin : undefined;
  }

  function sendHeight() {
    const { height } = document.body.getBoundingClientRect();
    const payload = { height: Math.ceil(height) };
    window.parent.postMessage({ type: "breakwater:height", ...payload }, target);
    // For AppPortal of svix-react with fullSize.
    window.parent.postMessage({ type: "svix.iframe-resizer-height", payload }, target);
  }

  const target = isFramed ? parentOrigin() : undefined;
  if (target !== undefined) new ResizeObserver(sendHeight).observe(document.body);

  const enter = document.querySelector("form[data-enter]");
  if (enter && isFramed) {
    enter.elements.framed.value = "1";
    enter.requestSubmit();
  }
})();
`;
