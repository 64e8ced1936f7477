/**
 * The service binding of other Workers: events are sent and looked up by RPC, without HTTP and without a key.
 *
 * What a binding may do is in its `props`, which are set by who deploys the calling Worker and which that Worker's code
 * cannot change. They come to a `Principal` as a key does, and from there on everything is done by the functions behind
 * the HTTP routes. Problems are values: errors lose class and fields on their way between Workers.
 */

import { WorkerEntrypoint } from "cloudflare:workers";
import { z } from "zod";
import { type Principal, refuseWithout } from "../core/principal.ts";
import { invalidFields, missing, type Refused, summarize } from "../core/result.ts";
import type { Scope } from "../core/scopes.ts";
import { showDelivery } from "../features/deliveries/routes.ts";
import {
  acceptEvents,
  fieldOfMany,
  fieldOfOne,
  MAX_BATCH_BYTES,
  MAX_EVENT_BYTES,
  newEvent,
  newEvents,
  oversized,
  showEvent,
} from "../features/events/routes.ts";

import { idempotencyKey, strict, tenantName } from "../http/parameters.ts";
import { checked, misconfigured, problemOf, retryAfterOf, unexpectedError } from "../http/problems.ts";
import { overCallerLimit } from "../http/rate-limit.ts";
import { faultOf, logToConsole } from "../log.ts";
import { misconfigurationOf, type Services, servicesOf } from "../services.ts";
import type {
  AcceptedEvent,
  BreakwaterEvents,
  Delivery,
  NewEvent,
  Result,
  SendOptions,
  StoredEvent,
} from "./client.ts";
import { parseWithBigInts, readValue } from "./json-value.ts";

/** The entrypoint that `[[services]]` of another Worker names. */
export class Events extends WorkerEntrypoint<Env> implements BreakwaterEvents {
  send(event: NewEvent, options?: SendOptions): Promise<Result<AcceptedEvent>> {
    return this.#call((events) => events.send(event, options));
  }

  sendBatch(events: readonly NewEvent[], options?: SendOptions): Promise<Result<readonly AcceptedEvent[]>> {
    return this.#call((binding) => binding.sendBatch(events, options));
  }

  event(id: string): Promise<Result<StoredEvent>> {
    return this.#call((events) => events.event(id));
  }

  delivery(id: string): Promise<Result<Delivery>> {
    return this.#call((events) => events.delivery(id));
  }

  async #call<T>(call: (events: BreakwaterEvents) => Promise<Result<T>>): Promise<Result<T>> {
    const fault = misconfigurationOf(this.env);
    if (fault) return refused(misconfigured(fault, "binding", logToConsole));
    return call(eventsFor(servicesOf(this.env, this.ctx), this.ctx.props));
  }
}

/** The calls of a binding with these props. */
export function eventsFor(services: Services, props: unknown): BreakwaterEvents {
  async function call<T>(
    method: string,
    scope: Scope,
    work: (principal: Principal) => Promise<Result<T>>,
  ): Promise<Result<T>> {
    try {
      const principal = principalOf(props);
      if ("kind" in principal) return refused(principal);
      const lacking = refuseWithout({ scope }, principal);
      if (lacking) return refused(lacking);
      const over = await overCallerLimit(services, scope === "read" ? "read" : "ingest", principal);
      return over ? refused(over) : await work(principal);
    } catch (error) {
      services.log({ what: "call_failed", method, fault: faultOf(error) });
      return refused(unexpectedError(error));
    }
  }

  return {
    send: (event, options) =>
      call("send", "events:write", async (principal) => {
        const key = keyOf(options);
        if ("kind" in key) return refused(key);
        const read = readValue(newEvent, event, "event", MAX_EVENT_BYTES);
        if ("kind" in read) return refused(read);
        const posted = { events: [read.data], key: key.key, fieldOf: fieldOfOne, keyField: KEY_FIELD };
        const result = await acceptEvents(services, principal, posted);
        if (result.kind === "refused") return refused(result.refusal);
        const [accepted] = result.events;
        if (accepted === undefined) throw new Error("An accepted event must have an id");
        return acceptedResult(accepted, result.isReplayed);
      }),

    sendBatch: (events, options) =>
      call("sendBatch", "events:write", async (principal) => {
        const key = keyOf(options);
        if ("kind" in key) return refused(key);
        const read = readValue(newEvents, { events }, "batch", MAX_BATCH_BYTES);
        if ("kind" in read) return refused(read);
        const tooLarge = oversized(read.data.events, read.bytes);
        if (tooLarge) return refused(tooLarge);
        const posted = { ...read.data, key: key.key, fieldOf: fieldOfMany, keyField: KEY_FIELD };
        const result = await acceptEvents(services, principal, posted);
        if (result.kind === "refused") return refused(result.refusal);
        return acceptedResult(result.events, result.isReplayed);
      }),

    event: (id) =>
      call<StoredEvent>("event", "read", async (principal) => {
        const shown = await showEvent(services, String(id), principal, parseWithBigInts);
        return shown ? { ok: true, value: shown } : refused(missing("event", String(id)));
      }),

    delivery: (id) =>
      call<Delivery>("delivery", "read", async ({ tenant }) => {
        const shown = await showDelivery(services, String(id), tenant);
        return shown ? { ok: true, value: shown } : refused(missing("delivery", String(id)));
      }),
  };
}

const KEY_FIELD = "idempotency_key";

/** `admin` is not among them: nothing that a binding offers needs it. */
const bindingScopes = ["events:write", "read"] as const;

const SCOPES_EXPECTED = `expected a list of ${bindingScopes.join(" and ")}, or of one of them`;

const propsSchema = strict({
  tenant: tenantName.optional(),
  scopes: z
    .array(z.enum(bindingScopes, { error: `expected one of ${bindingScopes.join(", ")}` }), {
      error: SCOPES_EXPECTED,
    })
    .min(1, { error: SCOPES_EXPECTED }),
});

/** Who calls, by the binding's props. A binding without a tenant is the operator's own, as a key without one is. */
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
