/** `fetch` in virtual time: the request's body names the delivery; the answer has status and headers. */

import type { Exchange } from "../../../src/core/retry/classify.ts";
import type { SendAttempt } from "../../../src/simulator/sender.ts";
import { textOf } from "../../../test/support/utf8.ts";
import type { Engine } from "../engine.ts";

export function answersOver(engine: Engine, attempt: SendAttempt, timeoutMs: number): typeof fetch {
  const fetched = async (_url: unknown, init?: RequestInit): Promise<Response> => {
    const { data } = JSON.parse(textOf(init?.body)) as { data: number };
    const { promise, resolve } = engine.deferred<Exchange>();
    attempt(data, resolve, timeoutMs);
    return responseOf(await promise);
  };
  return fetched as unknown as typeof fetch;
}

/** Converts an exchange as the runtime would: without an answer, it throws an error with a name. */
function responseOf(exchange: Exchange): Response {
  if (exchange.kind === "timeout") throw Object.assign(new Error("timed out"), { name: "TimeoutError" });
  if (exchange.kind !== "response") throw new Error("Network connection lost.");
  const { status, retryAfter } = exchange;
  const headers = { get: (name: string) => (name === "retry-after" ? (retryAfter ?? null) : null) };
  return { status, ok: status < 300, headers, body: null } as unknown as Response;
}
