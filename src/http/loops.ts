/**
 * Refuses loops: attempts of this deployment that come back as events, because a destination is on another name of the
 * deployment, or on a host that forwards requests to it. Every attempt carries the deployment's marker, and events that
 * are posted with it are refused, with a status that no retry policy retries by default.
 *
 * Events from a service binding or a queue have no headers, and so no marker.
 */
import type { MiddlewareHandler } from "hono";
import { isOwnMarker, MARKER } from "../secrets/deployment-marker.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

/** Middleware: 403 for a request that is an attempt of this deployment. */
export const refusesOwnAttempts: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const { config, log } = c.get("services");
  if (!(await isOwnMarker(config, c.req.header(MARKER)))) return next();
  log({ what: "loop_refused", host: new URL(c.req.url).host });
  return problem(403, LOOP);
};

const LOOP =
  `The request carries the ${MARKER} header of this deployment: it is one of its own attempts, whose event would ` +
  "loop. Point the destination at another receiver, or remove the header";
