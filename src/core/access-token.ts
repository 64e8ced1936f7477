/**
 * Access tokens of OAuth 2 client credentials (RFC 6749 §4.4): the meaning of a token endpoint's answer, and the token
 * or failure that a destination's gate gives to callers. One caller fetches for all; a failure is cached, so that a
 * failing endpoint is called less and less often, whatever the traffic.
 */
import { isJsonObject, parsedJson } from "./json-value.ts";
import type { TokenReason } from "./reasons.ts";

/** An answer of the endpoint, of which no more than `MAX_ANSWER_BYTES` were read. */
export type TokenAnswer = Readonly<{ status: number; text: string; isCut: boolean }>;

type TokenOutcome = Readonly<{ kind: "token"; token: string; lifetimeMs: number }> | TokenFault;

/** `fault` follows "the token endpoint"; a known error code is the only part of the answer in it. */
export type TokenFault = Readonly<{ kind: "failed"; reason: TokenReason; fault: string }>;

export const MAX_ANSWER_BYTES = 64 * 1024;

/** The life of a token if the answer has no valid `expires_in`. */
const USUAL_LIFETIME_S = 300;
const LONGEST_LIFETIME_S = 86_400;
/** Visible ASCII, so that it can be sent in a header (RFC 6750 §2.1 allows less). */
const TOKEN = /^[!-~]{1,8192}$/;

/** RFC 6749 §5.2. Any other code is not repeated: it might be a secret. */
const ERROR_CODES = [
  "invalid_request",
  "invalid_client",
  "invalid_grant",
  "unauthorized_client",
  "unsupported_grant_type",
  "invalid_scope",
];

/** The meaning of a token endpoint's answer. */
export function tokenOutcome({ status, text, isCut }: TokenAnswer): TokenOutcome {
  if (status >= 300 && status < 400) return tokenUnavailable("redirects, which is not followed");
  if (isCut) return tokenUnavailable(`answers ${status} with more than ${MAX_ANSWER_BYTES} bytes`);
  const answer = objectIn(text);
  const error = ERROR_CODES.find((code) => code === answer?.error);
  const named = error ? ` (${error})` : "";
  if (isRefusal(status))
    return { kind: "failed", reason: "token_refused", fault: `answers ${status}${named}` };
  if (status !== 200 && status !== 201) return tokenUnavailable(`answers ${status}${named}`);
  if (error) return { kind: "failed", reason: "token_refused", fault: `answers ${error}` };
  if (!answer) return tokenUnavailable(`answers ${status} without a JSON object`);
  const { access_token: token, token_type: type, expires_in: expiresIn } = answer;
  if (typeof token !== "string" || !TOKEN.test(token))
    return tokenUnavailable(`answers ${status} without an access_token that can be sent`);
  if (type !== undefined && !/^bearer$/i.test(String(type)))
    return tokenUnavailable(`answers ${status} with a token_type that is not Bearer`);
  return { kind: "token", token, lifetimeMs: lifetimeOf(expiresIn) * 1000 };
}

export function tokenUnavailable(fault: string): TokenFault {
  return { kind: "failed", reason: "token_unavailable", fault };
}

/** The client is refused, or the request: only its owner can change that. 408, 425 and 429 pass. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status);
}

/** Seconds; some servers write them as a string. */
function lifetimeOf(expiresIn: unknown): number {
  const seconds = typeof expiresIn === "string" ? Number(expiresIn) : expiresIn;
  if (typeof seconds !== "number" || !Number.isFinite(seconds) || seconds < 1) return USUAL_LIFETIME_S;
  return Math.min(seconds, LONGEST_LIFETIME_S);
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = parsedJson(text);
  return isJsonObject(value) ? value : undefined;
}

/** How long before its expiry a token is replaced: attempts that have begun, and clocks that differ, need a while. */
const EARLY_MS = 60_000;
/** The share of a shorter life that is used. */
const EARLY_SHARE = 0.25;

/** Until when a token that arrived at `now` is sent, epoch ms. */
export function usableUntil(lifetimeMs: number, now: number): number {
  return now + lifetimeMs - Math.min(EARLY_MS, lifetimeMs * EARLY_SHARE);
}

/** A token as the gate stores it: sealed, because the gate holds no master key. */
export type KeptToken = Readonly<{ sealed: string; obtainedAt: number; usableUntil: number }>;

/** The gate's knowledge of a destination's token. */
export type TokenState = Readonly<{
  /** Identifies the credentials: with other ones, the stored token does not count. */
  terms: string;
  token: KeptToken | null;
  failure: Readonly<{ reason: TokenReason; fault: string; times: number; until: number }> | null;
}>;

export type TokenRequest = Readonly<{
  terms: string;
  /** A sealed token that the receiver has refused, or that cannot be opened. */
  refused?: string;
  /** Fetch even if that has just failed, because a person is testing it. */
  force?: boolean;
}>;

/** A token, or why there is none. */
export type TokenAtGate =
  | (Readonly<{ kind: "token" }> & KeptToken)
  | (Readonly<{ kind: "failed"; until: number }> & TokenFault);

/** A receiver that refuses a new token too is not called again with another: the token is not the cause. */
const RENEWED_AFTER_MS = 60_000;
const FIRST_PAUSE_MS: Readonly<Record<TokenReason, number>> = {
  token_unavailable: 5_000,
  token_refused: 60_000,
};
const LONGEST_PAUSE_MS = 15 * 60_000;

/** The answer to a request; undefined when a token has to be fetched. */
export function tokenAt(
  state: TokenState | undefined,
  { terms, refused, force = false }: TokenRequest,
  now: number,
): TokenAtGate | undefined {
  if (!state || state.terms !== terms) return undefined;
  const { token, failure } = state;
  if (token && isUsable(token, refused, now)) return { kind: "token", ...token };
  if (!failure || failure.until <= now || force) return undefined;
  const { reason, fault, until } = failure;
  return { kind: "failed", reason, fault, until };
}

function isUsable(
  { sealed, obtainedAt, usableUntil: until }: KeptToken,
  refused: string | undefined,
  now: number,
) {
  return until > now && (sealed !== refused || now - obtainedAt < RENEWED_AFTER_MS);
}

export function afterToken(terms: string, token: KeptToken): TokenState {
  return { terms, token, failure: null };
}

/** Without the former token: it has been refused, or will be soon. One that another caller has fetched meanwhile stays. */
export function afterTokenFault(
  state: TokenState | undefined,
  { terms, refused }: TokenRequest,
  { reason, fault }: TokenFault,
  now: number,
): TokenState {
  if (state?.token && state.terms === terms && isUsable(state.token, refused, now)) return state;
  const before = state?.terms === terms ? state.failure : null;
  const times = (before?.reason === reason ? before.times : 0) + 1;
  const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS[reason] * 2 ** Math.min(times - 1, 20));
  return { terms, token: null, failure: { reason, fault, times, until: now + pause } };
}
