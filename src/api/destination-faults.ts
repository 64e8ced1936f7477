/**
 * What a schema alone cannot tell of a destination: whether its URL may be called in this deployment, and
 * whether its breaker still makes sense together with what is stored.
 */
import { resolve } from "../delivery/resolve.ts";
import { targetProblem } from "../delivery/target.ts";
import { type Breaker, defaultBreaker } from "../policy/limits.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import type { ApiContext } from "./context.ts";
import type { DestinationInput } from "./destination-schema.ts";
import { type Checked, errorsOf, type FieldError, givenTo } from "./field-errors.ts";
import { invalid } from "./problems.ts";

/** Refuses a body with the faults of all its fields at once, those of the URL included. */
export function refuseFaults(result: Checked, c: ApiContext) {
  const { allowPrivateDestinations } = c.get("services").config;
  const errors = [...errorsOf(result), ...urlErrors(givenTo(result), allowPrivateDestinations)];
  return errors.length > 0 ? invalid(errors) : undefined;
}

/** The fault of a URL as the caller gave it, if it gave one. */
function urlErrors(given: unknown, allowPrivate: boolean): FieldError[] {
  const { url } = (given ?? {}) as { url?: unknown };
  const found = typeof url === "string" ? targetProblem(url, allowPrivate) : undefined;
  return found ? [{ field: "url", ...found }] : [];
}

/**
 * The fault of a URL whose name leads inside, where the deployment names a resolver. What the resolver cannot
 * tell now it is asked again before every batch.
 */
export async function leadErrors(services: Services, url: string | undefined): Promise<FieldError[]> {
  const resolution = url === undefined ? undefined : await resolve(services, url);
  if (resolution?.kind !== "private") return [];
  const expected = "a name that leads to public addresses only";
  return [{ field: "url", fault: `leads to ${resolution.address}`, expected }];
}

/** The longest cool-down is not shorter than the first, with what stays as `stored`. */
export function breakerErrors(
  input: DestinationInput["breaker"],
  stored: Breaker = defaultBreaker,
): FieldError[] {
  if (input === undefined || input === null) return [];
  const first = settled(input.cooldown_s, stored.cooldown_s, defaultBreaker.cooldown_s);
  const longest = settled(input.max_cooldown_s, stored.max_cooldown_s, defaultBreaker.max_cooldown_s);
  if (longest >= first) return [];
  const expected = `at least the cooldown_s of ${first}`;
  return [{ field: "breaker.max_cooldown_s", fault: `is ${longest}`, expected }];
}

/** What must not have changed when the write comes: two changes, each right, may be wrong together. */
export function decidedOn(
  { breaker }: DestinationInput,
  { breakerCooldownS, breakerMaxCooldownS }: Destination,
): Partial<Pick<Destination, "breakerCooldownS" | "breakerMaxCooldownS">> {
  return breaker ? { breakerCooldownS, breakerMaxCooldownS } : {};
}

function settled(given: number | null | undefined, stored: number, fallback: number): number {
  return given === undefined ? stored : (given ?? fallback);
}
