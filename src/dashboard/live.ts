/**
 * The only script: keeps a page up to date while somebody looks at it, answers forms that only ask, and
 * copies. Plain JavaScript as the browser gets it; without it every page works and merely stands still.
 *
 * A page is fetched again, less its frame, every 2.5 s, or less often when that takes long. It is laid over what
 * is there node by node, so that whatever a person has typed, opened, selected or scrolled to stays as it is.
 */
export const live = /* js */ `"use strict";
(() => {
  const EVERY_MS = 2500;
  const MOST_MS = 30_000;
  const PATIENCE_MS = 8000;
  const main = document.querySelector("main");
  const isLive = main.hasAttribute("data-live");
  const beat = document.querySelector(".beat");
  let timer;

  async function refresh() {
    const headers = { "x-part": "main" };
    const response = await fetch(location.href, { headers, signal: AbortSignal.timeout(PATIENCE_MS) });
    if (response.status === 401) return location.reload();
    if (!response.ok && response.status !== 422) throw new Error(String(response.status));
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = next.querySelector("main");
    if (part) overlay(main, part);
  }

  async function tick() {
    const askedAt = performance.now();
    const isLate = await refresh().then(() => false, () => true);
    if (beat) {
      beat.classList.toggle("is-late", isLate);
      setText(beat, isLate ? "Out of reach; trying again" : "Live");
    }
    plan(performance.now() - askedAt);
  }

  /** What takes long costs much: it is asked for less often. */
  function plan(tookMs) {
    clearTimeout(timer);
    const inMs = Math.min(MOST_MS, Math.max(EVERY_MS, 10 * tookMs));
    if (isLive && !document.hidden) timer = setTimeout(tick, inMs);
  }

  function overlay(here, next) {
    for (const { name } of [...here.attributes]) {
      if (!next.hasAttribute(name) && !isPersons(here, name)) here.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (here.getAttribute(name) !== value && !isPersons(here, name)) here.setAttribute(name, value);
    }
    if (here.tagName === "TEXTAREA" || here.hasAttribute("data-still")) return;
    overlayChildren(here, next);
  }

  function overlayChildren(here, next) {
    const wanted = [...next.childNodes];
    wanted.forEach((node, i) => {
      const old = here.childNodes[i];
      if (!old) here.append(node);
      else if (!isAlike(old, node)) old.replaceWith(node);
      else if (node.nodeType === Node.ELEMENT_NODE) overlay(old, node);
      else setText(old, node.nodeValue);
    });
    while (here.childNodes.length > wanted.length) here.lastChild.remove();
  }

  function isAlike(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;
  }

  function isPersons(node, name) {
    return name === "open" || (name === "value" && node === document.activeElement);
  }

  function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  /** What a form that only asks would show, without leaving the page. */
  async function preview(form) {
    history.replaceState(null, "", form.action + "?" + new URLSearchParams(new FormData(form)));
    await refresh();
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.textContent);
    const word = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => setText(button, word), 1500);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button).catch(() => setText(button, "Select and copy by hand"));
  });
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form?.hasAttribute("data-preview")) preview(form).catch(() => form.requestSubmit());
  });
  if (isLive) {
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : tick()));
    plan(0);
  }
})();
`;
