/**
 * The dashboard's only script, and a part of the portal's, plain JavaScript as the browser gets it. It refreshes live
 * pages, follows the tail of deliveries, previews forms that change nothing, selects all rows of a table, and copies
 * text. Every page works without it.
 *
 * A live page's `main` is fetched again every 2.5 s, or less often when that takes long, and is merged into the page
 * node by node, so that the user's input, open parts, selection and scroll position stay. What it writes itself is in
 * English, unless the page's `body` has other words in `data-words`.
 */
export const live = /* js */ `"use strict";
(() => {
  const EVERY_MS = 2500;
  const MAX_MS = 30_000;
  const TIMEOUT_MS = 8000;
  const AGAIN_MS = 10_000;
  /** How many further pages a search follows automatically: each reads a bounded number of rows. */
  const MOST_PAGES = 20;
  const words = {
    live: "Live",
    late: "Connection lost; retrying",
    copied: "Copied",
    notCopied: "Copy failed: select the text",
    ...JSON.parse(document.body.dataset.words ?? "{}"),
  };
  const main = document.querySelector("main");
  const isLive = main.hasAttribute("data-live");
  const indicator = document.querySelector(".live-indicator");
  let timer;

  /** The \`main\` of a page of the same origin; null where the session is over, and its page is loaded. */
  async function partOf(url) {
    const headers = { "x-part": "main" };
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (response.status === 401) {
      location.reload();
      return null;
    }
    if (!response.ok && response.status !== 422) throw new Error(String(response.status));
    return new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main");
  }

  async function refresh() {
    const part = await partOf(location.href);
    if (part) merge(main, part);
  }

  /** Follows the links of pages that have found nothing so far, until one has found something. */
  async function followOn() {
    for (let pages = 0; pages < MOST_PAGES && !document.hidden; pages++) {
      const link = main.querySelector("a[data-next]");
      const part = link && (await partOf(link.href));
      if (!part) return;
      history.replaceState(null, "", link.href);
      merge(main, part);
    }
  }

  async function refreshAndSchedule() {
    // Rows that come in would move those that are selected.
    if (main.querySelector("[data-hold]:checked")) return schedule(0);
    const startedAt = performance.now();
    const isLate = await refresh().then(() => false, () => true);
    if (indicator) {
      indicator.classList.toggle("is-late", isLate);
      setText(indicator, isLate ? words.late : words.live);
    }
    schedule(performance.now() - startedAt);
  }

  /** A page that takes long to render is expensive, and is refreshed less often. */
  function schedule(tookMs) {
    clearTimeout(timer);
    const inMs = Math.min(MAX_MS, Math.max(EVERY_MS, 10 * tookMs));
    if (isLive && !document.hidden) timer = setTimeout(refreshAndSchedule, inMs);
  }

  function merge(here, next) {
    for (const { name } of [...here.attributes]) {
      if (!next.hasAttribute(name) && !isEditedByUser(here, name)) here.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (here.getAttribute(name) !== value && !isEditedByUser(here, name)) here.setAttribute(name, value);
    }
    if (here.tagName === "TEXTAREA" || here.hasAttribute("data-static")) return;
    mergeChildren(here, next);
  }

  function mergeChildren(here, next) {
    const wanted = [...next.childNodes];
    wanted.forEach((node, i) => {
      const old = here.childNodes[i];
      if (!old) here.append(node);
      else if (!isAlike(old, node)) old.replaceWith(node);
      else if (node.nodeType === Node.ELEMENT_NODE) merge(old, node);
      else setText(old, node.nodeValue);
    });
    while (here.childNodes.length > wanted.length) here.lastChild.remove();
  }

  function isAlike(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;
  }

  function isEditedByUser(node, name) {
    if (name !== "value") return name === "open" || name === "checked";
    return node === document.activeElement || (node.name === "read_at" && hasUnsavedText(node.form));
  }

  /** Its form is refused where somebody else has changed the settings since. */
  function hasUnsavedText({ elements }) {
    const isEdited = ({ type, value, defaultValue = value }) => type !== "hidden" && value !== defaultValue;
    return [...elements].some(isEdited);
  }

  function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  /** Shows the result of a GET form without leaving the page. */
  async function preview(form) {
    history.replaceState(null, "", form.action + "?" + new URLSearchParams(new FormData(form)));
    await refresh();
  }

  async function copy(button) {
    const parts = button.dataset.copy.split(" ").map((id) => document.getElementById(id).textContent);
    await navigator.clipboard.writeText(parts.join("\\n"));
    const label = button.textContent;
    button.textContent = words.copied;
    setTimeout(() => setText(button, label), 1500);
  }

  const MOST_ROWS = 200;

  /** Puts the rows of the tail into the page's table while the page is visible. */
  function follow(status) {
    const rows = document.querySelector("main tbody");
    let source;
    let again;

    function connect() {
      source = new EventSource(status.dataset.tail);
      source.onopen = () => setText(status, "Following: new deliveries appear at the top.");
      source.onerror = () => {
        // The response ends every minute, and the browser connects again; it does not when it was refused.
        if (source.readyState === EventSource.CLOSED) connectLater();
        else setText(status, "Connecting…");
      };
      source.addEventListener("delivery", ({ data }) => show(data));
      source.addEventListener("gap", () => setText(status, "Too many deliveries to show them live. Reload to see all of them."));
    }

    /** Reloads the page, which has everything that came meanwhile. */
    function connectLater() {
      setText(status, words.late);
      again = setTimeout(() => refresh().then(() => document.hidden || connect(), connectLater), AGAIN_MS);
    }

    function show(html) {
      const next = new DOMParser().parseFromString("<table>" + html + "</table>", "text/html").querySelector("tr");
      const here = document.getElementById(next.id);
      if (here) merge(here, next);
      else rows.prepend(next);
      while (rows.rows.length > MOST_ROWS) rows.rows[rows.rows.length - 1].remove();
    }

    // The tail stops while the page is hidden; a page that is seen again is loaded with everything that came meanwhile.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) return location.reload();
      clearTimeout(again);
      source.close();
    });
    connect();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button).catch(() => setText(button, words.notCopied));
  });
  document.documentElement.dataset.scripted = "";
  document.addEventListener("change", ({ target: box }) => {
    if (!box.hasAttribute("data-all")) return;
    for (const one of box.form.querySelectorAll("input[name=delivery]")) one.checked = box.checked;
  });
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form?.hasAttribute("data-preview")) preview(form).catch(() => form.requestSubmit());
  });
  // If a page cannot be fetched, its link is still there.
  followOn().catch(() => {});
  const tail = document.querySelector("[data-tail]");
  if (tail) follow(tail);
  if (isLive) {
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refreshAndSchedule()));
    schedule(0);
  }
})();
`;
