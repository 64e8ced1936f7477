/**
 * The dead, told of together: with the first of them a message is sent that comes after a minute, and whoever
 * takes it asks the gate how many there are by then. So a storm of deaths is one event a minute for each
 * destination, and costs a row a minute; where nobody dies, nothing.
 */
import { markDigestSent, digestAtGate } from "../gate/gate-client.ts";
import { faultOf } from "../log.ts";
import { DIGEST_MS } from "../policy/toll.ts";
import type { Services } from "../services.ts";
import { findDestination } from "../store/destinations.ts";
import { publish, isTold } from "./announce.ts";
import { deadEvent } from "./operational-event.ts";

/** A failure is logged, not thrown: the gate says it again with a later death. */
export async function scheduleDigest(services: Services, destination: string): Promise<void> {
  try {
    await services.drains.send({ deadLetterDigest: destination }, { delaySeconds: DIGEST_MS / 1000 });
  } catch (error) {
    services.log({ what: "toll_not_sent", destination, error: faultOf(error) });
  }
}

/** Tells of the destination's dead. Safe to repeat. */
export async function publishDigest(services: Services, id: string): Promise<void> {
  const deadLetterDigest = await digestAtGate(services, id);
  if (!deadLetterDigest || deadLetterDigest.dead === 0) return;
  const destination = await findDestination(services.db, id, undefined);
  if (destination && isTold(destination))
    await publish(services, [deadEvent(destination, deadLetterDigest, services.now())]);
  if (await markDigestSent(services, id, deadLetterDigest)) await scheduleDigest(services, id);
}
