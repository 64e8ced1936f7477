/**
 * The service binding of other Workers: events are sent and looked up by RPC, without HTTP and without a key.
 *
 * A binding's rights are in its `props`, which the deployer of the calling Worker sets and that Worker's code cannot
 * change. They give a `Principal` like a key, and the rest is done by the services that the HTTP routes call. Problems
 * are values: errors lose class and fields on their way between Workers.
 */

import { z } from "zod";
import { checked } from "../core/field-errors.ts";
import { type Permission, type Principal, refuseWithout } from "../core/principal.ts";
import { invalidFields, type Refused, summarize, withFieldNames } from "../core/result.ts";
import { getDelivery } from "../features/deliveries/service.ts";
import { MAX_BATCH_BYTES, MAX_EVENT_BYTES, newEvent, newEvents, ofOne } from "../features/events/schema.ts";
import { getEvent, postEvents } from "../features/events/service.ts";
import { idempotencyKey, listField, strict, tenantName } from "../features/parameters.ts";
import type { Caller } from "../features/service.ts";
import { misconfigured, problemOf, retryAfterOf, unexpectedError } from "../http/problems.ts";
import { faultOf, logToConsole } from "../log.ts";
import { overCallerLimit } from "../rate-limits.ts";
import { misconfigurationOf, type Services, servicesOf } from "../services.ts";
import type { BreakwaterEvents, Delivery, Result, StoredEvent } from "./client.ts";
import { parseWithBigInts, readValue } from "./json-value.ts";

/** The calls of a binding in this environment; while it is misconfigured, each is refused. */
export function eventsIn(env: Env, ctx: ExecutionContext): BreakwaterEvents {
  const fault = misconfigurationOf(env);
  if (!fault) return eventsFor(servicesOf(env, ctx), ctx.props);
  const refuse = async () => refused(misconfigured(fault, "binding", logToConsole));
  return { send: refuse, sendBatch: refuse, event: refuse, delivery: refuse };
}

/** The calls of a binding with these props. */
export function eventsFor(services: Services, props: unknown): BreakwaterEvents {
  async function call<T>(
    method: string,
    { permission }: Readonly<{ permission: Permission }>,
    work: (caller: Caller) => Promise<Result<T>>,
  ): Promise<Result<T>> {
    try {
      const principal = principalOf(props);
      if ("kind" in principal) return refused(principal);
      const lacking = refuseWithout(permission, principal);
      if (lacking) return refused(lacking);
      const limit = permission.scope === "read" ? "read" : "ingest";
      const over = await overCallerLimit(services, limit, principal);
      return over ? refused(over) : await work({ services, principal });
    } catch (error) {
      services.log({ what: "call_failed", method, fault: faultOf(error) });
      return refused(unexpectedError(error));
    }
  }

  return {
    send: (event, options) =>
      call("send", postEvents, async (caller) => {
        const key = keyOf(options);
        if ("kind" in key) return refused(key);
        const read = readValue(newEvent, event, "event", MAX_EVENT_BYTES);
        if ("kind" in read) return refused(read);
        const posted = await postEvents(caller, { events: [read.data], ...key });
        if (posted.kind !== "ok") return refused(withFieldNames(posted, ofOne));
        const [accepted] = posted.value.events;
        if (accepted === undefined) throw new Error("An accepted event must have an id");
        return acceptedResult(accepted, posted.value.isReplayed);
      }),

    sendBatch: (events, options) =>
      call("sendBatch", postEvents, async (caller) => {
        const key = keyOf(options);
        if ("kind" in key) return refused(key);
        const read = readValue(newEvents, { events }, "batch", MAX_BATCH_BYTES);
        if ("kind" in read) return refused(read);
        const posted = await postEvents(caller, { ...read.data, ...key, bytes: read.bytes });
        if (posted.kind !== "ok") return refused(posted);
        return acceptedResult(posted.value.events, posted.value.isReplayed);
      }),

    event: (id) =>
      call<StoredEvent>("event", getEvent, async (caller) => {
        const found = await getEvent(caller, { id: String(id), parse: parseWithBigInts });
        return found.kind === "ok" ? { ok: true, value: found.value } : refused(found);
      }),

    delivery: (id) =>
      call<Delivery>("delivery", getDelivery, async (caller) => {
        const found = await getDelivery(caller, String(id));
        return found.kind === "ok" ? { ok: true, value: found.value } : refused(found);
      }),
  };
}

const KEY_FIELD = "idempotency_key";

/** `admin` is not among them: nothing that a binding offers needs it. */
const bindingScopes = ["events:write", "read"] as const;

const propsSchema = strict({
  tenant: tenantName.optional(),
  scopes: listField(
    z.enum(bindingScopes, `expected one of ${bindingScopes.join(", ")}`),
    `a list of ${bindingScopes.join(" and ")}, or of one of them`,
    { min: 1 },
  ),
});

/** The caller, by the binding's props. A binding without a tenant is the operator's own, like a key without one. */
function principalOf(props: unknown): Principal | Refused<"unauthorized"> {
  const read = checked(propsSchema, props ?? {});
  if (!("data" in read)) {
    const errors = read.map((error) => ({ ...error, field: `props.${error.field}`.replace(/\.body$/, "") }));
    const detail = `The binding's props cannot be used: ${summarize(errors)}`;
    return { kind: "unauthorized", detail, errors };
  }
  const { tenant, scopes } = read.data;
  const bound = tenant !== undefined && { tenant, key: `binding:${tenant}` };
  return { via: "binding", scopes, ...bound };
}

const optionsSchema = strict({ [KEY_FIELD]: idempotencyKey }).optional();

function keyOf(options: unknown): Readonly<{ key: string | undefined }> | Refused<"invalid"> {
  const read = checked(optionsSchema, options);
  if ("data" in read) return { key: read.data?.[KEY_FIELD] };
  return invalidFields(read.map((error) => ({ ...error, field: error.field.replace(/^body$/, "options") })));
}

function acceptedResult<T>(value: T, isReplayed: boolean): Result<T> {
  return { ok: true, value, ...(isReplayed && { idempotent_replayed: true }) };
}

function refused(refusal: Refused): Result<never> {
  const retryAfterS = retryAfterOf(refusal);
  const later = retryAfterS !== undefined && { retry_after_s: retryAfterS };
  return { ok: false, problem: { ...problemOf(refusal), ...later } };
}
