import { createServer, type RequestListener, type Server } from "node:http";

/**
 * An HTTP server that closes no idle connection by itself. Otherwise it may close a connection while a client sends its
 * next request on it, as happens on a busy machine, and that request fails.
 */
export function localServer(listener: RequestListener): Server {
  return createServer({ keepAliveTimeout: 0 }, listener);
}
