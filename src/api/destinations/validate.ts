/**
 * What a schema alone cannot check of a destination: whether its target may be called from this deployment, whether its
 * breaker makes sense together with what is stored, whether the receiver consents, and whether a secret is a key pair.
 */
import type { z } from "@hono/zod-openapi";
import { type Breaker, defaultBreaker, limitsSchema } from "../../core/limits.ts";
import type { Destination } from "../../db/destinations.ts";
import { shakeHands } from "../../delivery/test-event.ts";
import { resolve, targetProblem } from "../../delivery/url-guard.ts";
import { newSecret, type Scheme, schemeOf, signingKey } from "../../secrets/signing.ts";
import type { Services } from "../../services.ts";
import type { ApiContext } from "../context.ts";
import { type Checked, errorsOf, type FieldError, givenTo, invalid } from "../problems.ts";
import { type DestinationInput, type newDestination, SECRET_EXPECTED } from "./schema.ts";
import { changesTarget, targetErrors } from "./target.ts";

/** Validation hook of a new destination: 422 with the errors of all fields at once, those of its target included. */
export function refuseInvalidNew(result: Checked & Readonly<{ target: string }>, c: ApiContext) {
  const given = result.target === "json" ? givenTo(result) : undefined;
  const errors = [...errorsOf(result), ...urlErrors(given, c), ...targetErrors(given)];
  return errors.length > 0 ? invalid(errors) : undefined;
}

/** Validation hook of a change: the same, but for what depends on the stored target. */
export function refuseInvalid(result: Checked, c: ApiContext) {
  const errors = [...errorsOf(result), ...urlErrors(givenTo(result), c)];
  return errors.length > 0 ? invalid(errors) : undefined;
}

function urlErrors(given: unknown, c: ApiContext): FieldError[] {
  const { url } = (given ?? {}) as { url?: unknown };
  if (typeof url !== "string") return [];
  const { allowPrivateDestinations, ownHosts = [] } = c.get("services").config;
  const found = targetProblem(url, allowPrivateDestinations, [
    requestedHost(c.req.url, allowPrivateDestinations),
    ...ownHosts,
  ]);
  return found ? [{ field: "url", ...found }] : [];
}

/** The host that this request came to. A local stack shares its name with other servers, so there the port counts. */
function requestedHost(requestUrl: string, isLocal: boolean): string {
  const { hostname, protocol, port } = new URL(requestUrl);
  if (!isLocal) return hostname;
  return `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
}

/**
 * The error of a URL whose host name leads to a private address, where the deployment has a resolver. A name that the
 * resolver cannot look up now is accepted: it is looked up again before every batch.
 */
export async function addressErrors(services: Services, url: string | undefined): Promise<FieldError[]> {
  const resolution = url === undefined ? undefined : await resolve(services, url);
  if (resolution?.kind !== "private") return [];
  const expected = "a name that leads to public addresses only";
  return [{ field: "url", fault: `leads to ${resolution.address}`, expected }];
}

/** The error of a longest cool-down that is shorter than the first; what the input leaves out is as in `stored`. */
export function breakerErrors(
  input: DestinationInput["breaker"],
  stored: Breaker = defaultBreaker,
): FieldError[] {
  if (input === undefined || input === null) return [];
  const first = effective(input.cooldown_s, stored.cooldown_s, defaultBreaker.cooldown_s);
  const longest = effective(input.max_cooldown_s, stored.max_cooldown_s, defaultBreaker.max_cooldown_s);
  if (longest >= first) return [];
  const expected = `at least the cooldown_s of ${first}`;
  return [{ field: "breaker.max_cooldown_s", fault: `is ${longest}`, expected }];
}

function effective(given: number | null | undefined, stored: number, fallback: number): number {
  return given === undefined ? stored : (given ?? fallback);
}

/** The columns that a valid change depends on: the write requires them unchanged, since two changes may conflict. */
export function dependsOn(
  input: DestinationInput,
  { url, breakerCooldownS, breakerMaxCooldownS }: Destination,
): Partial<Pick<Destination, "url" | "breakerCooldownS" | "breakerMaxCooldownS">> {
  return {
    ...(input.breaker && { breakerCooldownS, breakerMaxCooldownS }),
    // A new URL replaces the whole target; fields of another kind complete the stored ones.
    ...(changesTarget(input) && input.url === undefined && { url }),
  };
}

type Agreement = Readonly<{ ratePerSecond?: number }> | Readonly<{ errors: readonly FieldError[] }>;

const HANDSHAKE_EXPECTED =
  "a receiver that answers OPTIONS with WebHook-Allowed-Origin naming this host, or *";

/** The limits that the receiver allows; none without a handshake. A lower rate of the caller's own stays. */
export async function handshakeFor(
  services: Services,
  { url, handshake, rate_per_second: own }: z.infer<typeof newDestination>,
  origin: string,
): Promise<Agreement> {
  if (!handshake || url === undefined) return {};
  const answer = await shakeHands(services, url, origin);
  if (answer.kind === "refused") {
    const fault = `the receiver ${answer.fault}`;
    return { errors: [{ field: "handshake", fault, expected: HANDSHAKE_EXPECTED }] };
  }
  const { ratePerSecond } = answer;
  if (ratePerSecond === undefined || (own ?? Number.POSITIVE_INFINITY) <= ratePerSecond) return {};
  const allowed = limitsSchema.shape.rate_per_second.safeParse(ratePerSecond);
  return allowed.success ? { ratePerSecond } : {};
}

type SecretInput = Readonly<{ secret?: string | null | undefined; signature?: Scheme | null | undefined }>;
type ChosenSecret = Readonly<{ secret: string }> | Readonly<{ errors: readonly FieldError[] }>;

/** The caller's own secret, or a new one of the scheme asked for, or else of the scheme `otherwise`. */
export async function chosenSecret(
  { secret, signature }: SecretInput,
  otherwise: Scheme,
): Promise<ChosenSecret> {
  if (!secret) return { secret: newSecret(signature ?? otherwise) };
  if (signature && signature !== schemeOf(secret)) {
    const fault = `is for ${schemeOf(secret)}`;
    return { errors: [{ field: "secret", fault, expected: `one for ${signature}` }] };
  }
  const isPair = await signingKey(secret).then(
    () => true,
    () => false,
  );
  const fault = "joins halves of different keys";
  return isPair ? { secret } : { errors: [{ field: "secret", fault, expected: SECRET_EXPECTED }] };
}
