/**
 * Access tokens for destinations with OAuth 2 client credentials (RFC 6749 §4.4). The destination's gate keeps the
 * token and lets one caller fetch it (gate/access-tokens.ts); an isolate caches it. The token endpoint is called like a
 * receiver: behind the same checks of its address, over one of the invocation's connections, without following
 * redirects, for a bounded time and a bounded answer.
 */

import {
  MAX_ANSWER_BYTES,
  type TokenAnswer,
  type TokenAtGate,
  type TokenFault,
  tokenOutcome,
  tokenUnavailable,
  usableUntil,
} from "../core/access-token.ts";
import { atGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { basic } from "../secrets/base64.ts";
import { USER_AGENT } from "../secrets/deployment-marker.ts";
import type { Services } from "../services.ts";
import { within } from "../time.ts";
import { resolve, targetFault } from "./url-guard.ts";

/** The credentials that a token is fetched with. */
export type ClientCredentials = Readonly<{
  token_url: string;
  client_id: string;
  client_secret: string;
  scope: string | null;
  audience: string | null;
  params: Readonly<Record<string, string>>;
  client_auth: "basic" | "body";
}>;

export type AccessToken = Readonly<{ kind: "token"; token: string; sealed: string }>;

/** There is no token, and none is fetched before `until` (epoch ms). */
export type NoToken = TokenFault & Readonly<{ until: number }>;

type Wanted = Readonly<{
  destination: string;
  /** Identifies the credentials: a change of credentials changes it. */
  terms: string;
  credentials: ClientCredentials;
  /** A sealed token that the receiver has refused. */
  refused?: string | undefined;
  /** Fetch even where that has just failed. */
  force?: boolean | undefined;
  /** Runs the fetch on a connection of the invocation. */
  connect: <T>(task: () => Promise<T>) => Promise<T>;
}>;

/** Resolution of the name, request and answer together. Shorter than a gate lets the others wait. */
const FETCH_MS = 8_000;
/** An unreachable gate is called again after this. */
const UNREACHABLE_MS = 5_000;

/** The token to send now, of this isolate, of the gate, or fetched for everybody. */
export async function accessTokenFor(services: Services, wanted: Wanted): Promise<AccessToken | NoToken> {
  const { destination, terms, refused, force } = wanted;
  const kept = services.memory.accessTokens.get(destination);
  if (kept?.terms === terms && kept.sealed !== refused && kept.usableUntil > services.now() && !force) {
    const token = await opened(services, destination, kept.sealed);
    if (token) return token;
  }
  const found = await fromGate(services, wanted, refused);
  if (found.kind === "failed") return found;
  const token = await opened(services, destination, found.sealed);
  if (token) return token;
  // Sealed with a master key that has been removed since: unusable.
  const another = await fromGate(services, wanted, found.sealed);
  if (another.kind === "failed") return another;
  const unreadable = tokenUnavailable("gave a token that cannot be opened");
  return (await opened(services, destination, another.sealed)) ?? { ...unreadable, until: services.now() };
}

async function opened({ vault }: Services, destination: string, sealed: string) {
  try {
    return { kind: "token", token: await vault.openText(destination, "token", sealed), sealed } as const;
  } catch {
    return undefined;
  }
}

async function fromGate(
  services: Services,
  wanted: Wanted,
  refused: string | undefined,
): Promise<TokenAtGate> {
  const { destination, terms, force = false } = wanted;
  const request = { terms, force, ...(refused !== undefined && { refused }) };
  const result = await atGate(services, destination, "accessToken", request);
  const found = result?.kind === "claimed" ? await fetchForAll(services, wanted, refused) : result;
  const { accessTokens } = services.memory;
  if (found?.kind === "token") {
    const { sealed, usableUntil: until } = found;
    accessTokens.set(destination, { terms, sealed, usableUntil: until });
  }
  // The cached token was refused, or is about to expire.
  else accessTokens.delete(destination);
  return (
    found ?? {
      ...tokenUnavailable("was not called: the destination's gate cannot be reached"),
      until: services.now() + UNREACHABLE_MS,
    }
  );
}

/**
 * Fetches the token under the gate's claim, and stores it there. A failure is stored too, because others wait for the
 * result.
 */
async function fetchForAll(
  services: Services,
  { destination, terms, credentials, connect }: Wanted,
  refused: string | undefined,
): Promise<TokenAtGate | undefined> {
  const outcome = await connect(() => fetchToken(services, credentials));
  const { now, vault, log } = services;
  if (outcome.kind === "failed") {
    const { reason, fault } = outcome;
    log({ what: "token_failed", destination, reason, error: `The token endpoint ${fault}` });
    const handedIn = { ...outcome, ...(refused !== undefined && { refused }) };
    return atGate(services, destination, "keepAccessToken", terms, handedIn);
  }
  const { token, lifetimeMs } = outcome;
  const until = usableUntil(lifetimeMs, now());
  const sealed = await vault.seal(destination, token, "token");
  log({ what: "token_fetched", destination, until });
  const kept = await atGate(services, destination, "keepAccessToken", terms, {
    kind: "token",
    sealed,
    usableUntil: until,
  });
  // Without the gate, this isolate can still use it.
  return kept ?? { kind: "token", sealed, obtainedAt: now(), usableUntil: until };
}

/** One request of the token endpoint; whatever goes wrong on the way is an outcome. */
export async function fetchToken(services: Services, credentials: ClientCredentials) {
  const { config } = services;
  const { token_url: url } = credentials;
  const fault = targetFault(url, config.allowPrivateDestinations, config.ownHosts);
  if (fault) return tokenUnavailable(`must not be called: ${fault}`);
  const abort = new AbortController();
  try {
    const work = exchange(services, credentials, abort.signal);
    // Abandoned work may fail later, which nobody awaits.
    work.catch(() => {});
    return await within(services, FETCH_MS, work, SILENCE);
  } catch (error) {
    return tokenUnavailable(`cannot be reached: ${faultOf(error)}`);
  } finally {
    abort.abort();
  }
}

const SILENCE = `No answer within ${FETCH_MS} ms`;

async function exchange(services: Services, credentials: ClientCredentials, signal: AbortSignal) {
  const { token_url: url } = credentials;
  const resolution = await resolve(services, url);
  if (resolution.kind === "private")
    return tokenUnavailable(`must not be called: it leads to ${resolution.address}`);
  if (resolution.kind === "unknown") return tokenUnavailable(`cannot be looked up: ${resolution.fault}`);
  const { headers, body } = tokenRequest(credentials);
  const response = await services.fetch(url, { method: "POST", redirect: "manual", headers, body, signal });
  return tokenOutcome(await answerIn(response));
}

/** RFC 6749 §2.3.1 and §4.4.2. */
export function tokenRequest(credentials: ClientCredentials) {
  const { client_id: id, client_secret: secret, scope, audience, params, client_auth: way } = credentials;
  const body = new URLSearchParams({
    grant_type: "client_credentials",
    ...(scope !== null && { scope }),
    ...(audience !== null && { audience }),
    ...(way === "body" && { client_id: id, client_secret: secret }),
    ...params,
  });
  const headers: Record<string, string> = {
    accept: "application/json",
    "user-agent": USER_AGENT,
    "content-type": "application/x-www-form-urlencoded",
    ...(way === "basic" && { authorization: basic(formEncoded(id), formEncoded(secret)) }),
  };
  return { headers, body: body.toString() };
}

function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

async function answerIn({ status, body }: Response): Promise<TokenAnswer> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_ANSWER_BYTES) return { status, text: "", isCut: true };
    text += decoder.decode(chunk, { stream: true });
  }
  return { status, text, isCut: false };
}
