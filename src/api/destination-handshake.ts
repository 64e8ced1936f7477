/** The optional handshake when a destination is created: what the receiver allows becomes a limit of ours. */
import type { z } from "@hono/zod-openapi";
import { shakeHands } from "../delivery/handshake.ts";
import { limitsSchema } from "../policy/limits.ts";
import type { Services } from "../services.ts";
import type { newDestination } from "./destination-schema.ts";
import type { FieldError } from "./field-errors.ts";

type Agreed = Readonly<{ ratePerSecond?: number }> | Readonly<{ errors: readonly FieldError[] }>;

const EXPECTED = "a receiver that answers OPTIONS with WebHook-Allowed-Origin naming this host, or *";

/** The limits to store; none when no handshake was asked for. A lower rate of the caller's own stays. */
export async function handshakeFor(
  services: Services,
  { url, handshake, rate_per_second: own }: z.infer<typeof newDestination>,
  origin: string,
): Promise<Agreed> {
  if (!handshake) return {};
  const answer = await shakeHands(services, url, origin);
  if (answer.kind === "refused") {
    return { errors: [{ field: "handshake", fault: `the receiver ${answer.fault}`, expected: EXPECTED }] };
  }
  const { ratePerSecond } = answer;
  if (ratePerSecond === undefined || (own ?? Number.POSITIVE_INFINITY) <= ratePerSecond) return {};
  const allowed = limitsSchema.shape.rate_per_second.safeParse(ratePerSecond);
  return allowed.success ? { ratePerSecond } : {};
}
