/** The results of actions in the portal. */
import type { FC } from "hono/jsx";
import { useLook } from "./look.ts";
import type { Texts } from "./texts/en.ts";

/** The result of an action. The address names it, but never contains its text. */
type PortalOutcome = keyof Texts["done"];

/** Where to redirect to after an action, so that reloading the page does not repeat it. */
export function portalOutcomeAt(path: string, outcome: PortalOutcome, anchor = ""): string {
  return `${path}?done=${outcome}${anchor}`;
}

export const PortalOutcomeNotice: FC<{ name: string | undefined }> = ({ name }) => {
  const { done } = useLook().t;
  return name !== undefined && Object.hasOwn(done, name) ? (
    <output class="notice tone-good">{done[name as PortalOutcome]}</output>
  ) : null;
};
