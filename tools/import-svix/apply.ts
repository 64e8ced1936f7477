/** Carries out a plan, and records the outcome of each part. One part that fails does not stop the others. */

import { randomUUID } from "node:crypto";
import { z } from "zod";
import { mapAtOnce } from "../../src/time.ts";
import type { SideAnswer, SvixApi } from "./client.ts";
import type { ApplicationPlan, EndpointPlan, EventTypePlan, ImportPlan } from "./plan.ts";

/** The outcome of a part of the plan. */
type ImportOutcome =
  | Readonly<{
      kind: "created" | "changed" | "left";
      /** Its id at the target. */
      id: string;
    }>
  | Readonly<{ kind: "failed"; reason: string }>;

export type Item = EventTypePlan | ApplicationPlan | EndpointPlan;

type Outcome = ImportOutcome | undefined;

/** Outcomes by part. A part that is refused or was not reached has none. */
export type Outcomes = Map<Item, ImportOutcome>;

/**
 * @param outcomes gets an entry for each part when it is done, so that it is correct whenever the run ends
 * @throws Unavailable when the target cannot be used any longer
 * @throws Interrupted when the run is interrupted
 */
export async function apply(
  plan: ImportPlan,
  target: SvixApi,
  { atOnce, outcomes, progress }: Readonly<{ atOnce: number; outcomes: Outcomes; progress: () => void }>,
): Promise<void> {
  const settle = (item: Item, outcome: Outcome) => {
    if (outcome) outcomes.set(item, outcome);
    progress();
    return outcome;
  };
  await mapAtOnce(plan.eventTypes, atOnce, async (type) => settle(type, await applyEventType(type, target)));
  await mapAtOnce(plan.applications, atOnce, async (application) => {
    const outcome = settle(application, await applyApplication(application, target));
    if (outcome === undefined) return;
    await mapAtOnce(application.endpoints, atOnce, async (endpoint) => {
      if (outcome.kind !== "failed")
        settle(endpoint, await applyEndpoint(endpoint, `/api/v1/app/${outcome.id}/endpoint`, target));
      else settle(endpoint, { kind: "failed", reason: "its application could not be written" });
    });
  });
}

async function applyEventType({ uid, action }: EventTypePlan, target: SvixApi): Promise<Outcome> {
  if (isSettled(action)) return settled(action, uid);
  const body = action.kind === "create" ? action.body : action.change;
  const answer = await target.call("PUT", `/api/v1/event-type/${encodeURIComponent(uid)}`, { body });
  if (!answer.ok) return failed("PUT event-type", answer);
  return { kind: action.kind === "create" ? "created" : "changed", id: uid };
}

async function applyApplication({ action }: ApplicationPlan, target: SvixApi): Promise<Outcome> {
  if (isSettled(action)) return settled(action);
  if (action.kind === "create") return created(target, "/api/v1/app", action.body);
  const answer = await target.call("PATCH", `/api/v1/app/${action.id}`, { body: action.change });
  return answer.ok ? { kind: "changed", id: action.id } : failed("PATCH app", answer);
}

async function applyEndpoint({ action }: EndpointPlan, path: string, target: SvixApi): Promise<Outcome> {
  if (isSettled(action)) return settled(action);
  if (action.kind === "create") return created(target, path, action.body);
  const { fields, headers, secret } = action.change;
  const one = `${path}/${action.id}`;
  // The secret comes first, and what may enable the endpoint last: nothing is sent that its receiver would refuse.
  const steps = [
    ["POST", "/secret/rotate", secret === undefined ? undefined : { key: secret }],
    ["PATCH", "/headers", headers && { headers }],
    ["PATCH", "", fields],
  ] as const;
  for (const [method, part, body] of steps) {
    const answer = body && (await target.call(method, one + part, { body }));
    if (answer?.ok === false) return failed(`${method} /${action.id}${part}`, answer);
  }
  return { kind: "changed", id: action.id };
}

type Settled = Extract<Item["action"], { kind: "refuse" | "leave" }>;

function isSettled(action: Item["action"]): action is Settled {
  return action.kind === "refuse" || action.kind === "leave";
}

function settled(action: Settled, id = action.kind === "leave" ? action.id : ""): Outcome {
  return action.kind === "leave" ? { kind: "left", id } : undefined;
}

const createdOut = z.object({ id: z.string().regex(/^[A-Za-z0-9_-]{1,100}$/) });

/**
 * The key is for repeats of this one request: objects of a former run are found by their `uid`, and what was deleted
 * since can be created again.
 */
async function created(target: SvixApi, path: string, body: object): Promise<ImportOutcome> {
  const answer = await target.call("POST", path, { body, idempotencyKey: `import-${randomUUID()}` });
  if (!answer.ok) return failed(`POST ${path}`, answer);
  const read = createdOut.safeParse(answer.json);
  if (read.success) return { kind: "created", id: read.data.id };
  return { kind: "failed", reason: `POST ${path} answered without an id: run the same command again` };
}

function failed(what: string, { status, reason }: Extract<SideAnswer, { ok: false }>): ImportOutcome {
  const hint = status === 409 ? "; run the same command again if another one is under way" : "";
  return { kind: "failed", reason: `${what} ${reason}${hint}` };
}
