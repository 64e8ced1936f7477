/**
 * What must hold before a destination's gate is asked: what it signs with can be opened. When it cannot,
 * that is our trouble and not the receiver's: nothing is attempted, nothing is counted, and the deliveries
 * wait in D1 for the sweep, which has a drain try again.
 */
import { faultOf } from "../log.ts";
import type { Refusal, RefusalReason } from "../policy/ask.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { type Signer, signerFor } from "./signature.ts";

export type Prepared =
  | Readonly<{ kind: "ready"; signer: Signer }>
  | Readonly<{ kind: "unready"; refusal: Refusal }>;

/** The sweep comes round every minute. */
const AGAIN_MS = 60_000;

export async function prepare(services: Services, destination: Destination): Promise<Prepared> {
  const now = services.now();
  try {
    return { kind: "ready", signer: await signerFor(services.vault, destination, now) };
  } catch (error) {
    services.log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return unready("sealed", now);
  }
}

function unready(reason: RefusalReason, now: number): Prepared {
  return { kind: "unready", refusal: { reason, until: now + AGAIN_MS } };
}
