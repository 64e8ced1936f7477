/** The portal's files: style sheets, script and icon. They are served by the Worker itself, under the hash of their content. */
import { accentColours, brandingIn } from "../../core/portal-branding.ts";
import { assetsAt, IMMUTABLE, mark } from "../ui/assets.ts";
import { live } from "../ui/live.ts";
import { charts, forms, page, parts, tokens } from "../ui/style.ts";
import { portalScript } from "./script.ts";
import type { Portal } from "./session.ts";
import { portalStyle } from "./style.ts";

const files = assetsAt("/portal", {
  "style.css": { type: "text/css", text: [tokens, page, parts, charts, forms, portalStyle].join("") },
  "portal.js": { type: "text/javascript", text: live + portalScript },
  "mark.svg": { type: "image/svg+xml", text: mark },
});

export const assetPath = files.path;

export function registerAssets(app: Portal): void {
  files.register(app);
  app.get("/portal/accents/:name{[0-9a-f]{6}\\.css}", (c) => {
    const accent = `#${c.req.param("name").slice(0, 6)}`;
    if (!brandingIn({ accent })) return c.notFound();
    return c.body(accentStyle(accent), 200, { "content-type": "text/css; charset=utf-8", ...IMMUTABLE });
  });
}

/** A style sheet of its own, because nothing may be inline. */
export function accentPath(accent: string): string {
  return `/portal/accents/${accent.slice(1).toLowerCase()}.css`;
}

function accentStyle(accent: string): string {
  const { light, dark } = accentColours(accent);
  const both = (name: keyof typeof light) => `light-dark(${light[name]}, ${dark[name]})`;
  return `:root { --accent: ${both("accent")}; --on-accent: ${both("onAccent")}; --accent-wash: ${both("wash")}; --accent-faint: ${both("faint")}; }\n`;
}
