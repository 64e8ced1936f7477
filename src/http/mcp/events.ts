/**
 * The methods of MCP Events (docs/mcp.md names the text that they follow): parameters to services, and results and refusals to the
 * words and codes of the protocol.
 */
import type { z } from "@hono/zod-openapi";
import { checked } from "../../core/field-errors.ts";
import { EVENTS_EXTENSION } from "../../core/mcp-events.ts";
import { invalidFields, type Refused } from "../../core/result.ts";
import type { ChallengeFault } from "../../delivery/challenge.ts";
import type { Caller } from "../../features/service.ts";
import { pollEvents } from "../../features/subscriptions/poll.ts";
import {
  listParams,
  pollParams,
  subscribeParams,
  unsubscribeParams,
} from "../../features/subscriptions/schema.ts";
import { listEventKinds, subscribe, unsubscribe } from "../../features/subscriptions/service.ts";
import { retryAfterOf } from "../problems.ts";
import { fieldsOf, type RpcFault, type RpcRequest, rpcCodes } from "./message.ts";

/** The codes of the draft, which ChatGPT knows, and those of the SEP, which requires numbers of the specification. */
const codes = {
  draft: { notFound: -32011, forbidden: -32012, exhausted: -32013, unsupported: -32014, callback: -32015 },
  sep: { notFound: -32023, forbidden: -32024, exhausted: -32025, unsupported: -32026, callback: -32027 },
} as const;

/** Methods that change something, and so count as changes. */
export const changingEventMethods: readonly string[] = ["events/subscribe", "events/unsubscribe"];

/** @param needsApproval whether a person approves changes */
type EventsCall = Readonly<{ caller: Caller; needsApproval: boolean; requestUrl: string }>;

type Method = (call: EventsCall, request: RpcRequest) => Promise<object>;

/** By name. Throws an `EventsFault` for a refusal. */
const methods: Readonly<Record<string, Method>> = {
  "events/list": async ({ caller }, request) => {
    const { cursor } = paramsOf(listParams, request);
    return accepted(request, await listEventKinds(caller, cursor ?? undefined));
  },

  "events/poll": async ({ caller }, request) =>
    accepted(request, await pollEvents(caller, paramsOf(pollParams, request))),

  "events/subscribe": async ({ caller, requestUrl }, request) => {
    const params = paramsOf(subscribeParams, request);
    const { mode } = params.delivery;
    if (mode !== "webhook") throw unsupportedMode(request, mode);
    const made = accepted(request, await subscribe(caller, { params, requestUrl }));
    if (made.kind === "unconfirmed")
      throw eventsFault(request, "callback", CONSENT[made.reason], { reason: made.reason });
    const { kind: _, ...result } = made;
    return result;
  },

  "events/unsubscribe": async ({ caller }, request) => {
    const ended = await unsubscribe(caller, paramsOf(unsubscribeParams, request));
    // ChatGPT expects that a repeat succeeds too, the SEP that it is refused.
    if (ended.kind === "not_found" && !followsSep(request)) return {};
    accepted(request, ended, "subscription");
    return {};
  },
};

export const eventMethods: readonly string[] = Object.keys(methods);

const CONSENT: Readonly<Record<ChallengeFault, string>> = {
  challenge_failed:
    'The receiver at delivery.url answered, and did not repeat the challenge: answer a POST of the type verification with 2xx and {"challenge": …}',
  timeout: "The receiver at delivery.url did not answer the challenge within 10 seconds",
  tls_error: "The receiver at delivery.url has no certificate that is valid for its name",
  connection_refused: "The receiver at delivery.url cannot be reached",
};

/** The result of a method of MCP Events, or an error; undefined when it is not such a method. */
export async function eventsResult(call: EventsCall, request: RpcRequest) {
  const method = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined;
  if (method === undefined) return undefined;
  try {
    // It would happen at once, and a person is to approve it.
    if (call.needsApproval && changingEventMethods.includes(request.method))
      throw eventsFault(request, "forbidden", UNAPPROVED);
    return await method(call, request);
  } catch (error) {
    if (error instanceof EventsFault) return error.fault;
    throw error;
  }
}

const UNAPPROVED =
  "A person approves what this key changes, but subscriptions cannot be approved: use a key without confirm";

class EventsFault extends Error {
  override readonly name = "EventsFault";
  readonly fault: RpcFault;

  constructor(fault: Omit<RpcFault, "kind">) {
    super(fault.message);
    this.fault = { kind: "fault", ...fault };
  }
}

function paramsOf<T>(schema: z.ZodType<T>, request: RpcRequest): T {
  const read = checked(schema, request.params);
  if ("data" in read) return read.data;
  throw refusalFault(request, invalidFields(read));
}

/** @param what the missing object, if one is missing */
function accepted<T>(
  request: RpcRequest,
  result: Readonly<{ kind: "ok"; value: T }> | Refused,
  what: "event" | "subscription" = "event",
): T {
  if (result.kind === "ok") return result.value;
  throw refusalFault(request, result, what);
}

function refusalFault(
  request: RpcRequest,
  refused: Refused,
  what: "event" | "subscription" = "event",
): EventsFault {
  const { kind, detail, errors = [] } = refused;
  const full = errors.find(({ field }) => field === "tenant");
  switch (kind) {
    case "forbidden":
      return eventsFault(request, "forbidden", detail);
    case "not_found": {
      const mend = what === "event" ? ": events/list has the existing ones" : "";
      return eventsFault(request, "notFound", `${detail}${mend}`, { kind: what });
    }
    case "too_many": {
      const seconds = retryAfterOf(refused);
      const wait = seconds === undefined ? {} : { retryAfterMs: seconds * 1000 };
      return eventsFault(request, "exhausted", detail, { limit: "challenges", ...wait });
    }
    case "invalid":
      if (full) return eventsFault(request, "exhausted", detail, { limit: "subscriptions" });
      return new EventsFault({
        ...{ status: 200, code: rpcCodes.invalidParams, message: `Invalid params: ${detail}` },
        data: { errors },
      });
    default: {
      const status = kind === "unavailable" ? 503 : 200;
      return new EventsFault({ status, code: rpcCodes.internal, message: detail });
    }
  }
}

function unsupportedMode(request: RpcRequest, mode: string): EventsFault {
  const value = mode.slice(0, 100);
  const message = `delivery.mode is ${JSON.stringify(value)}; expected webhook`;
  return eventsFault(request, "unsupported", message, { feature: "deliveryMode", value });
}

function eventsFault(
  request: RpcRequest,
  name: keyof typeof codes.sep,
  message: string,
  data?: object,
): EventsFault {
  const code = codes[followsSep(request) ? "sep" : "draft"][name];
  return new EventsFault({ status: 200, code, message, ...(data && { data }) });
}

/** Whether the client says that it knows the extension of the SEP. */
function followsSep({ params }: RpcRequest): boolean {
  const capabilities = fieldsOf(fieldsOf(params._meta)?.["io.modelcontextprotocol/clientCapabilities"]);
  return fieldsOf(fieldsOf(capabilities?.extensions)?.[EVENTS_EXTENSION]) !== undefined;
}
