/**
 * The soak's client of the API, which follows the rules for clients. With a key, a request without an answer, or with a
 * 503, is repeated; without a key it is repeated only if it cannot have arrived.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Findings } from "./checks.ts";

/** How long a request may take. */
const PATIENCE_MS = 15_000;
const AGAIN_MS = 700;

/** The contents of an answer. */
export type Answer = Readonly<{ status: number; body: unknown }>;

export type Ask = Readonly<{
  body?: unknown;
  /** The idempotency key. */
  key?: string | undefined;
  /** A request that is harmless when repeated is repeated until it is answered. */
  isRepeatable?: boolean;
  apiKey: string;
}>;

export class SoakClient {
  readonly #url: () => Promise<string>;
  readonly #findings: Findings;
  /** Requests that were made again. */
  repeats = 0;

  /** @param url resolves with the address when the stack is up */
  constructor(url: () => Promise<string>, findings: Findings) {
    this.#url = url;
    this.#findings = findings;
  }

  /** Undefined when no answer has come and the outcome of the request is unknown. */
  async ask(
    method: string,
    path: string,
    { body, key, apiKey, isRepeatable = key !== undefined }: Ask,
  ): Promise<Answer | undefined> {
    for (;;) {
      const url = await this.#url();
      try {
        const response = await fetch(`${url}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${apiKey}`,
            "content-type": "application/json",
            ...(key !== undefined && { "idempotency-key": key }),
          },
          signal: AbortSignal.timeout(PATIENCE_MS),
          ...(body !== undefined && { body: JSON.stringify(body) }),
        });
        const text = await response.text();
        const isFault = response.status === 500;
        this.#findings.observe("answers", !isFault, () => `${method} ${path}: ${text.slice(0, 300)}`);
        if (response.status < 500)
          return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
        if (!isRepeatable) return undefined;
      } catch (error) {
        if (!isRepeatable && !wasNotSent(error)) return undefined;
      }
      this.repeats += 1;
      await sleep(AGAIN_MS);
    }
  }
}

export function unexpected({ status, body }: Answer): never {
  throw new Error(`Unexpected answer ${status}: ${JSON.stringify(body).slice(0, 300)}`);
}

/** Nothing listened. */
function wasNotSent(error: unknown): boolean {
  return (error as { cause?: { code?: string } }).cause?.code === "ECONNREFUSED";
}
