/**
 * What no page may do, seen from outside of it: ask another host for anything, break the policy that it was
 * sent with, throw, or complain.
 */
import type { BrowserContext } from "playwright-core";

export type Watch = Readonly<{
  /** What was done that may not be; empty when all was well. */
  faults: readonly string[];
}>;

/** @param origin the only one that may be asked; requests to any other are stopped */
export async function watch(context: BrowserContext, origin: string): Promise<Watch> {
  const faults: string[] = [];
  await context.route(
    (url) => url.origin !== origin,
    async (route) => {
      faults.push(`asked for ${route.request().url()}`);
      await route.abort();
    },
  );
  await context.exposeBinding("tellViolation", (_, what: string) => faults.push(`policy broken: ${what}`));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
      (window as unknown as Telling).tellViolation(`${violatedDirective} ${blockedURI}`);
    });
  });
  context.on("weberror", (error) => faults.push(`threw: ${error.error().message}`));
  context.on("console", (message) => {
    if (message.type() === "error" && !isAnswer(message.text())) faults.push(`said: ${message.text()}`);
  });
  return { faults };
}

type Telling = { tellViolation: (what: string) => void };

/** The browser notes each answer from 400 on; pages that refuse something answer so by design. */
function isAnswer(text: string): boolean {
  return /status of 4\d\d/.test(text);
}
