/** Calls to the object that runs a tenant's functions (functions-object.ts). One that cannot be reached is a value. */
import { type FunctionCall, type FunctionOutcome, functionUnavailable } from "../core/transform/code.ts";
import type { Services } from "../services.ts";
import { type CallServices, callObject } from "./client.ts";
import type { TenantFunctions } from "./functions-object.ts";

/** The object's own time for a batch, and a call that has begun in it. */
const TIMEOUT_MS = 4_000;

/** Runs a tenant's function for each of the events. */
export async function runFunction(
  services: CallServices & Pick<Services, "functions">,
  call: FunctionCall,
): Promise<readonly FunctionOutcome[]> {
  const { functions: objects } = services;
  const none = (fault: string) =>
    [...(call.events.length > 0 ? call.events : [""])].map(() => functionUnavailable(fault));
  if (objects === undefined) return none("is not run by this deployment");
  const called = {
    objects,
    name: call.tenant,
    failed: { what: "functions_unreachable", tenant: call.tenant },
  };
  const answers = await callObject<TenantFunctions, "run">(services, called, "run", () => [call], {
    once: true,
    timeoutMs: TIMEOUT_MS,
  });
  return answers?.length === Math.max(1, call.events.length) ? answers : none("could not be run");
}
