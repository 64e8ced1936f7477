/**
 * The style sheet, the script and the logo: three small files that the Worker serves itself, so that pages load
 * nothing from other hosts and their Content-Security-Policy can forbid everything inline. Their path contains a hash
 * of their content, so browsers may cache them for ever.
 */
import type { Env, Hono } from "hono";
import { live } from "./live.ts";
import { charts, forms, page, parts, tokens } from "./style.ts";

const style = [tokens, page, parts, charts, forms].join("");

/** The logo: three waves, each lower than the one before. */
export const mark =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#0b6a72" stroke-width="2.25" stroke-linecap="round"><path d="M2 8.5c3-5 6-5 9 0s6 5 11 0"/><path d="M2 14.5c3-3 6-3 9 0s6 3 11 0" opacity=".7"/><path d="M2 19.5c3-1.4 6-1.4 9 0s6 1.4 11 0" opacity=".4"/></svg>';

/** Files that a set of pages needs, by name. */
type Files = Readonly<Record<string, Readonly<{ type: string; text: string }>>>;

/** Serves files under a path. They are registered before authentication: pages without a session need them too. */
export function assetsAt<F extends Files>(base: string, files: F) {
  return {
    /** The current path of a file. */
    path: (name: keyof F & string) => `${base}/${versionOf(files[name]?.text ?? "")}/${name}`,
    register: <E extends Env>(app: Hono<E>) => {
      for (const [name, { type, text }] of Object.entries(files)) {
        app.get(`${base}/:version{[0-9a-f]+}/${name}`, (c) =>
          c.body(text, 200, { "content-type": `${type}; charset=utf-8`, ...IMMUTABLE }),
        );
      }
    },
  };
}

/** The header for files that never change at their address. */
export const IMMUTABLE = { "cache-control": "public, max-age=31536000, immutable" };

const assets = assetsAt("/dashboard", {
  "style.css": { type: "text/css", text: style },
  "live.js": { type: "text/javascript", text: live },
  "mark.svg": { type: "image/svg+xml", text: mark },
});

export const { path: assetPath, register: registerAssets } = assets;

/** A hash of the content: FNV-1a, enough to distinguish versions of a file. */
export function versionOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
