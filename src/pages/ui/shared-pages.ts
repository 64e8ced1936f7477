/** The pages that dashboard and portal share. */
import type { Env, Hono } from "hono";
import { registerActionPage } from "./action-panel.tsx";
import { registerAttempt } from "./attempt-page.tsx";
import { registerCertification } from "./certification-page.tsx";
import { registerNoticePages } from "./notice-page.tsx";
import type { Surface } from "./surface.ts";
import { registerTestEvent } from "./test-page.tsx";
import { registerTransform } from "./transform-page.tsx";

export function registerSharedPages<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  registerTestEvent(app, surface);
  registerCertification(app, surface);
  registerNoticePages(app, surface);
  registerTransform(app, surface);
  registerAttempt(app, surface);
  registerActionPage(app, surface);
}
