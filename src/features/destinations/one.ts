/** Services about one destination. */
import type { Principal } from "../../core/principal.ts";
import { missing, ok, type Refused, unavailable } from "../../core/result.ts";
import { atGate } from "../../gate/client.ts";
import type { Services } from "../../services.ts";
import { findDestination } from "../../store/destinations.ts";
import { servicesAbout } from "../service.ts";

export const destinationService = servicesAbout("destination", ({ services: { db }, principal }, id) =>
  findDestination(db, id, principal.tenant),
);

/** The destination, unless it is of another tenant than the principal's. */
export async function visibleDestination({ db }: Pick<Services, "db">, { tenant }: Principal, id: string) {
  const row = await findDestination(db, id, tenant);
  return row ? ok(row) : missing("destination", id);
}

export const GATE_UNREACHABLE = unavailable("The destination's gate cannot be reached at the moment");

/** Claims the right to send the destination a test, or the conformance suite, now; or why it is not granted. */
export async function refuseTest(
  services: Services,
  id: string,
  isSuite = false,
): Promise<Refused<"unavailable" | "too_many"> | undefined> {
  const until = await atGate(services, id, "claimTest", isSuite);
  if (until === undefined) return GATE_UNREACHABLE;
  if (until === null) return undefined;
  const retryAfterS = Math.max(1, Math.ceil((until - services.now()) / 1000));
  const detail = `The destination has just been tested; try again in ${retryAfterS} s`;
  return { kind: "too_many", detail, retryAfterS };
}
