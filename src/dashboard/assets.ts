/**
 * The style sheet, the script and the mark: three small files from the Worker itself, so that a page asks
 * nobody else for anything and its policy can forbid whatever is inline. Their address changes with their
 * content, and so a browser keeps them for ever.
 */
import type { Hono } from "hono";
import { live } from "./live.ts";
import type { DashboardEnv } from "./session.ts";
import { charts, forms, page, parts, tokens } from "./style.ts";

const style = [tokens, page, parts, charts, forms].join("");

/** Three waves, each lower than the last: what is behind a breakwater. */
export const mark =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#0b6a72" stroke-width="2.25" stroke-linecap="round"><path d="M2 8.5c3-5 6-5 9 0s6 5 11 0"/><path d="M2 14.5c3-3 6-3 9 0s6 3 11 0" opacity=".7"/><path d="M2 19.5c3-1.4 6-1.4 9 0s6 1.4 11 0" opacity=".4"/></svg>';

const files = {
  "style.css": { type: "text/css", text: style },
  "live.js": { type: "text/javascript", text: live },
  "mark.svg": { type: "image/svg+xml", text: mark },
} as const;

/** The address of one of them, in its version of today. */
export function assetPath(name: keyof typeof files): string {
  return `/dashboard/${versionOf(files[name].text)}/${name}`;
}

/** Registered before sign-in: the page on which one signs in needs them too. */
export function registerAssets(app: Hono<DashboardEnv>): void {
  for (const [name, { type, text }] of Object.entries(files)) {
    app.get(`/dashboard/:version{[0-9a-f]+}/${name}`, (c) =>
      c.body(text, 200, {
        "content-type": `${type}; charset=utf-8`,
        "cache-control": "public, max-age=31536000, immutable",
      }),
    );
  }
}

/** FNV-1a: enough to tell one version of a file from the next. */
export function versionOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
