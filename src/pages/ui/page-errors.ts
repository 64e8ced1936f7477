/** A page's answer to a failure of ours, with a log line. */
import type { Context, Env } from "hono";
import { serverStatusOf } from "../../http/problems.ts";
import { faultOf, type Log, logToConsole } from "../../log.ts";

type PageEnv = Env & Readonly<{ Variables: Readonly<{ services: Readonly<{ log: Log }> }> }>;

/** @param show the page that says so */
export function onPageError<E extends PageEnv>(
  show: (c: Context<E>, status: 500 | 503) => Response | Promise<Response>,
) {
  return (error: Error, c: Context<E>): Response | Promise<Response> => {
    // The services themselves may have failed.
    const log = (c.get("services") as Readonly<{ log: Log }> | undefined)?.log ?? logToConsole;
    if ("getResponse" in error) return (error.getResponse as () => Response)();
    const status = serverStatusOf(error);
    log({ what: "page_failed", method: c.req.method, path: c.req.path, status, fault: faultOf(error) });
    return show(c, status);
  };
}
