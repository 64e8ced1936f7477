/**
 * The way to intake, the object that commits single events for everybody. What crosses is plain and carries a
 * version, because after a deploy an object may run the code of yesterday for some minutes.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { within } from "../time.ts";
import { type CommitResult, type Entry, INTAKE_VERSION, type IntakeAnswer } from "./bundle.ts";

const ATTEMPTS = 2;

/**
 * Has intake commit an entry of one event. Undefined when intake has certainly not taken it, so that the caller may
 * commit it. An answer that got lost is asked for once more with the same token, and then nobody knows: to commit it
 * here as well would be a race with an object that may still have it in hand.
 */
export async function commitByIntake(
  services: Services,
  database: number,
  { token, events: [event], key, deadlineAt }: Entry,
): Promise<CommitResult | undefined> {
  const { intake, config } = services;
  if (!intake || !event) return undefined;
  const { tenant, type, body, deliverAt } = event;
  const shard = Math.floor(services.random() * config.intakeShards);
  const place = config.intakeLocation && { locationHint: config.intakeLocation };
  const request = {
    version: INTAKE_VERSION,
    database,
    token,
    tenant,
    type,
    body,
    deliverAt,
    key,
    deadlineAt,
  } as const;
  const unavailable: CommitResult = { kind: "unavailable" };
  let triedAt: number | undefined;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const askedAt = services.now();
    if (askedAt >= deadlineAt) break;
    const notTaken = triedAt === undefined ? undefined : unavailable;
    try {
      const stub = intake.get(intake.idFromName(`${database}.${shard}`), place);
      const call: Promise<IntakeAnswer> = stub.accept({ ...request, triedAt });
      const answer = await within(services, deadlineAt - askedAt, call);
      if (answer.kind === "done") return answer.outcome;
      return answer.kind === "full" ? unavailable : notTaken;
    } catch (error) {
      services.log({ what: "intake_unreachable", attempt, error: faultOf(error) });
      // An overloaded object has taken nothing: https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
      if ((error as { overloaded?: boolean }).overloaded) return notTaken;
      triedAt ??= askedAt;
    }
  }
  return unavailable;
}
