/**
 * Notices forbidden actions of a page: that it sends a request to another host, violates its Content-Security-Policy,
 * throws, or logs an error.
 */
import type { BrowserContext } from "playwright-core";

export type Watch = Readonly<{
  /** Empty when the page did nothing wrong. */
  faults: readonly string[];
}>;

/** @param origin the only one that pages may send requests to; all others are aborted */
export async function watch(context: BrowserContext, origin: string): Promise<Watch> {
  const faults: string[] = [];
  await context.route(
    (url) => url.origin !== origin,
    async (route) => {
      faults.push(`requested ${route.request().url()}`);
      await route.abort();
    },
  );
  await context.exposeBinding("reportViolation", (_, what: string) =>
    faults.push(`policy violated: ${what}`),
  );
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
      (window as unknown as Reporting).reportViolation(`${violatedDirective} ${blockedURI}`);
    });
  });
  context.on("weberror", (error) => faults.push(`threw: ${error.error().message}`));
  context.on("console", (message) => {
    if (message.type() === "error" && !isResponseStatus(message.text()))
      faults.push(`logged: ${message.text()}`);
  });
  return { faults };
}

type Reporting = { reportViolation: (what: string) => void };

/** The browser logs every response from 400 on; pages that refuse something send them by design. */
function isResponseStatus(text: string): boolean {
  return /status of 4\d\d/.test(text);
}
