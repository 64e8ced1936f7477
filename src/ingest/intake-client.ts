/**
 * The way to intake, the object that commits single events for everybody. What crosses is plain and carries a
 * version, because after a deploy an object may run the code of yesterday for some minutes.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Entry, Outcome } from "./commit.ts";

export const INTAKE_VERSION = 1;

export type IntakeRequest = Readonly<{
  version: typeof INTAKE_VERSION;
  database: number;
  token: string;
  tenant: string;
  type: string;
  body: Uint8Array;
  deliverAt?: number | undefined;
  key?: Readonly<{ key: string; fingerprint: string }> | undefined;
  /** Whoever asked waits no longer than this, epoch ms: no commit is begun for them after it. */
  deadlineAt: number;
}>;

export type IntakeAnswer =
  | Readonly<{ kind: "done"; outcome: Outcome }>
  /** Not taken, for there is too much already. */
  | Readonly<{ kind: "full" }>
  /** Not taken: of a version that this object does not know. */
  | Readonly<{ kind: "unknown" }>;

/** How long an answer is waited for. */
const PATIENCE_MS = 10_000;

/**
 * Has intake commit an entry of one event. Undefined when intake has certainly not taken it, so that the caller may
 * commit it; an answer that got lost is asked for once more with the same token, and then nobody knows.
 */
export async function commitByIntake(
  services: Services,
  database: number,
  { token, events: [event], key }: Entry,
  now: number,
): Promise<Outcome | undefined> {
  const { intake, config } = services;
  if (!intake || !event) return undefined;
  const { tenant, type, body, deliverAt } = event;
  const shard = Math.floor(services.random() * config.intakeShards);
  const place = config.intakeLocation && { locationHint: config.intakeLocation };
  const stub = () => intake.get(intake.idFromName(`${database}.${shard}`), place);
  const deadlineAt = now + PATIENCE_MS;
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
  for (let attempt = 1; attempt <= 2; attempt++) {
    try {
      const answer = (await stub().accept(request)) as IntakeAnswer;
      if (answer.kind === "done") return answer.outcome;
      return answer.kind === "full" ? { kind: "unavailable" } : undefined;
    } catch (error) {
      services.log({ what: "intake_unreachable", attempt, error: faultOf(error) });
      // An overloaded object has taken nothing: https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
      if ((error as { overloaded?: boolean }).overloaded) return undefined;
    }
  }
  return { kind: "unavailable" };
}
