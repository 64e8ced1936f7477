/**
 * One side of an import, whose API under /api/v1 is called: with few concurrent requests, which are repeated when they
 * are temporarily refused or lost. No error or reason contains the token or a secret.
 */
import { parsedJson, parseExactly } from "../../src/core/json-value.ts";
import { parseRetryAfter } from "../../src/core/retry/retry-after.ts";
import { printable } from "./printable.ts";

/** The effects that an import needs. */
export type Effects = Readonly<{
  fetch: typeof fetch;
  sleep: (ms: number) => Promise<void>;
  /** Epoch ms. */
  now: () => number;
  /** From 0 to 1. */
  random: () => number;
}>;

type ApiSide = Readonly<{
  /** The beginning of sentences: "The source". */
  name: string;
  /** Includes the path before /api/v1, if there is one. */
  url: URL;
  token: string;
  /** The source of the token: "--token". */
  credential: string;
  concurrency: number;
}>;

export type SideAnswer =
  | Readonly<{
      ok: true;
      /** Its numbers are as they were written. */
      json: unknown;
    }>
  | Readonly<{
      ok: false;
      status: number;
      /** The answer in words. */
      reason: string;
    }>;

/** A side cannot be used, or no longer. This ends the run, because every other request would fail in the same way. */
export class Unavailable extends Error {}

export class Interrupted extends Error {}

type Options = Readonly<{
  body?: object;
  /** Makes a repeated creation harmless. */
  idempotencyKey?: string;
}>;

type Got =
  | Readonly<{ kind: "response"; status: number; headers: Headers; text: string }>
  | Readonly<{ kind: "none"; fault: string }>;

const TIMEOUT_MS = 30_000;
/** How long a request that is temporarily refused or not answered is repeated. */
const PATIENCE_MS = 180_000;
/** After a longer Retry-After the command ends, to be run again. */
const LONGEST_PAUSE_MS = 120_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_BACKOFF_MS = 15_000;
/** Attempts at a request that fails in the server: an error of this one request does not go away. */
const FAILED_ATTEMPTS = 3;

export class SvixApi {
  readonly #side: ApiSide;
  readonly #effects: Effects;
  readonly #signal: AbortSignal;
  readonly #waiting: (() => void)[] = [];
  #free: number;
  /** No request begins before this time, which the side has named. */
  #pausedUntil = 0;

  constructor(side: ApiSide, effects: Effects, signal: AbortSignal) {
    this.#side = side;
    this.#effects = effects;
    this.#signal = signal;
    this.#free = side.concurrency;
  }

  /**
   * One request, repeated while it may succeed.
   * @param path from /api/v1 on, with its names encoded
   * @throws Unavailable when the side has not answered for minutes, refuses the token, or is no such API
   * @throws Interrupted when the run is interrupted
   */
  async call(method: string, path: string, options: Options = {}): Promise<SideAnswer> {
    await this.#taken();
    try {
      return await this.#repeated(method, path, options);
    } finally {
      this.#free += 1;
      this.#waiting.shift()?.();
    }
  }

  async #taken(): Promise<void> {
    while (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#free -= 1;
  }

  async #repeated(method: string, path: string, options: Options): Promise<SideAnswer> {
    const until = this.#effects.now() + PATIENCE_MS;
    for (let attempt = 1; ; attempt += 1) {
      await this.#pause();
      const got = await this.#once(method, path, options);
      if (!this.#isTemporary(got, attempt)) return this.#answerOf(got, method, path);
      const retryAfterMs = this.#retryAfterMs(got);
      const pauseMs = Math.max(retryAfterMs, this.#backoffMs(attempt));
      if (retryAfterMs > LONGEST_PAUSE_MS || this.#effects.now() + pauseMs > until)
        throw new Unavailable(
          `${this.#label} does not take ${method} ${path}: ${faultOf(got)}. Run the same command later: it continues`,
        );
      if (retryAfterMs > 0)
        this.#pausedUntil = Math.max(this.#pausedUntil, this.#effects.now() + retryAfterMs);
      await this.#effects.sleep(pauseMs);
    }
  }

  /** Waits until the time that the side has named, if it has. */
  async #pause(): Promise<void> {
    for (;;) {
      if (this.#signal.aborted) throw new Interrupted("Interrupted");
      const ms = this.#pausedUntil - this.#effects.now();
      if (ms <= 0) return;
      await this.#effects.sleep(ms);
    }
  }

  async #once(method: string, path: string, { body, idempotencyKey }: Options): Promise<Got> {
    const { url, token } = this.#side;
    const headers = {
      authorization: `Bearer ${token}`,
      accept: "application/json",
      ...(body && { "content-type": "application/json" }),
      ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
    };
    try {
      const response = await this.#effects.fetch(`${url.origin}${url.pathname.replace(/\/$/, "")}${path}`, {
        method,
        headers,
        // A redirect must not get the token.
        redirect: "manual",
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { kind: "response", status: response.status, headers: response.headers, text };
    } catch (error) {
      return { kind: "none", fault: messageOf(error) };
    }
  }

  #isTemporary(got: Got, attempt: number): boolean {
    if (got.kind === "none" || [429, 502, 503, 504].includes(got.status)) return true;
    return got.status >= 500 && got.status !== 501 && attempt < FAILED_ATTEMPTS;
  }

  #retryAfterMs(got: Got): number {
    if (got.kind === "none") return 0;
    const now = this.#effects.now();
    return (parseRetryAfter(got.headers.get("retry-after") ?? undefined, now) ?? now) - now;
  }

  /** Jitter only lengthens the wait. */
  #backoffMs(attempt: number): number {
    return Math.min(LONGEST_BACKOFF_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1)) * (1 + this.#effects.random());
  }

  #answerOf(got: Got, method: string, path: string): SideAnswer {
    if (got.kind === "none") throw new Unavailable(`${this.#label} does not answer: ${got.fault}`);
    const { status, text, headers } = got;
    if (status >= 300 && status < 400)
      throw new Unavailable(
        `${this.#label} leads to ${printable(headers.get("location") ?? "elsewhere")}: give that address instead`,
      );
    const json = parsedJson(text, parseExactly);
    if (status === 401) throw new Unavailable(`${this.#label} refuses the ${this.#side.credential}`);
    if (status >= 300) {
      const reason = reasonOf(json, text).replaceAll(this.#side.token, "…");
      return { ok: false, status, reason: `answered ${status}: ${reason}` };
    }
    if (json === undefined && text !== "")
      throw new Unavailable(
        `${this.#label} answers ${method} ${path} with something that is not JSON: is that its API's address?`,
      );
    return { ok: true, json };
  }

  get #label(): string {
    return `${this.#side.name} (${this.#side.url.host})`;
  }
}

function faultOf(got: Got): string {
  return got.kind === "none" ? got.fault : `it answers ${got.status}`;
}

/** Why a request got no answer, with the system's reason, which `fetch` keeps as the cause. */
function messageOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } };
  return printable(cause?.code ?? cause?.message ?? message ?? String(error));
}

/** Fields whose values an answer must not repeat. */
const SECRET_FIELDS = ["secret", "key", "headers"];

/** The detail of an error in the shape of the API. Any other text might have anything in it, and is left out. */
function reasonOf(json: unknown, text: string): string {
  const { detail } = (json ?? {}) as { detail?: unknown };
  if (typeof detail === "string") return printable(detail);
  if (!Array.isArray(detail)) return text === "" ? "nothing" : "something that is not an error of this API";
  const errors = detail as readonly { loc?: readonly unknown[]; msg?: unknown }[];
  return errors.map(({ loc = [], msg }) => `${printable(loc.join("."))}: ${wordsOf(loc, msg)}`).join("; ");
}

/** For a fault of a secret, repeats only the expectation, which follows the given value. */
function wordsOf(loc: readonly unknown[], msg: unknown): string {
  const words = String(msg);
  const isSecret = loc.some((step) => SECRET_FIELDS.includes(String(step)));
  if (!isSecret) return printable(words);
  const at = words.lastIndexOf("; expected ");
  return at < 0 ? "is refused" : printable(`is refused${words.slice(at)}`);
}
