/**
 * What must hold before a destination's gate is asked: what it signs with can be opened, and its name leads
 * to nothing inside. When one does not, nothing is attempted and nothing is counted: the deliveries wait in
 * D1 for the sweep, which has a drain try again.
 */
import { faultOf } from "../log.ts";
import type { Refusal, RefusalReason } from "../policy/ask.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import type { Connections } from "./connections.ts";
import { resolve } from "./resolve.ts";
import { type Signer, signerFor } from "./signature.ts";

export type Prepared =
  | Readonly<{ kind: "ready"; signer: Signer }>
  | Readonly<{ kind: "unready"; refusal: Refusal }>;

/** The sweep comes round every minute. */
const AGAIN_MS = 60_000;

export async function prepare(
  services: Services,
  shared: Connections,
  destination: Destination,
): Promise<Prepared> {
  const misled = await misleading(services, shared, destination);
  if (misled) return unready(misled, services.now());
  try {
    return { kind: "ready", signer: await signerFor(services.vault, destination, services.now()) };
  } catch (error) {
    services.log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return unready("sealed", services.now());
  }
}

/** Why the destination's name must not be called now. A question takes one of the invocation's connections. */
async function misleading(
  services: Services,
  shared: Connections,
  { id, url }: Destination,
): Promise<RefusalReason | undefined> {
  if (!services.config.dnsResolver) return undefined;
  const resolution = await shared.run(id, () => resolve(services, url));
  switch (resolution.kind) {
    case "public":
      return undefined;
    case "private":
      services.log({ what: "address_forbidden", destination: id, address: resolution.address });
      return "forbidden_address";
    case "unknown":
      services.log({ what: "resolver_failed", destination: id, error: resolution.fault });
      return "unresolved";
  }
}

function unready(reason: RefusalReason, now: number): Prepared {
  return { kind: "unready", refusal: { reason, until: now + AGAIN_MS } };
}
