/**
 * Destinations of the kind `service`: another Worker of the account, through a service binding
 * (`service:BILLING/hook`). Its `fetch` gets the request that an HTTP receiver would get. There is no name to look up
 * and no address to guard: the operator chose the Worker.
 *
 * The request's host names the binding under `breakwater.internal`, a name that exists nowhere else: by this name the
 * Worker refuses a binding to itself (worker.ts), whose deliveries would loop.
 */

import { transformedUrl } from "../../core/transform/url.ts";
import { faultOf } from "../../log.ts";
import { unlessAborted } from "../../time.ts";
import { ExchangeFailure, type PostRequest } from "../http.ts";
import { bindingField, bindingOf } from "./binding.ts";
import {
  type Kind,
  malformed,
  noObstacle,
  type PreparedSend,
  requestInit,
  type TargetFields,
} from "./kind.ts";

/** The end of the host names of requests to services. */
export const SERVICE_HOST = ".breakwater.internal";

const fields = {
  binding: bindingField,
  path: {
    kind: "text",
    is: isPath,
    expected:
      "a path such as /hook, with or without a query, of at most 1024 printable ASCII characters, without \\, #, dot segments",
    nullable: true,
    optional: true,
    meta: {
      description: "The path that the service is called with, of kind `service`; `/` unless given.",
      example: "/hook",
    },
  },
} as const satisfies Kind["fields"];

export const serviceBinding = {
  fields,
  binds: "service",

  faults: ({ binding }) =>
    binding === undefined
      ? [{ field: "binding", fault: "is missing", expected: "the binding of a service" }]
      : [],

  textOf: ({ binding, path = "/" }) => `service:${binding}${path}`,

  fieldsOf(text): TargetFields | undefined {
    return targetOf(text);
  },

  obstacles: ({ url }) =>
    targetOf(url) === undefined ? malformed("service:, a binding and a path") : noObstacle,

  async prepare(services, _shared, { id, url, tenant }): Promise<PreparedSend> {
    const target = targetOf(url);
    const bound = target && bindingOf(services, "service", target.binding, tenant);
    if (bound) return { kind: "ready", post: postTo(bound.service, addressOf(target)) };
    services.log({ what: "binding_unusable", destination: id });
    return { kind: "unready", reason: "unbound" };
  },
} as const satisfies Kind;

type ServiceTarget = Readonly<{ binding: string; path: string }>;

function targetOf(text: string): ServiceTarget | undefined {
  const [, binding, path] = /^service:([A-Za-z_][A-Za-z0-9_]{0,63})(\/.*)$/s.exec(text) ?? [];
  return binding && path && isPath(path) ? { binding, path } : undefined;
}

function addressOf({ binding, path }: ServiceTarget): string {
  return `https://${binding.toLowerCase().replaceAll("_", "-")}${SERVICE_HOST}${path}`;
}

/** Whether the parser leaves the path as it is written: what is stored must read as what is called. */
function isPath(path: string): boolean {
  if (!/^\/[!-~]{0,1023}$/.test(path) || /[\\#]/.test(path)) return false;
  const parsed = URL.parse(`https://x${SERVICE_HOST}${path}`);
  return parsed !== null && `${parsed.pathname}${parsed.search}` === path;
}

/** Any error that the other Worker throws is its failure, whatever the message. */
function postTo(service: Fetcher, url: string): PostRequest {
  return async ({ way, ...sent }) => {
    const { signal } = sent;
    try {
      return await unlessAborted(service.fetch(transformedUrl(url, way), requestInit(sent, way)), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ExchangeFailure("network", faultOf(error));
    }
  };
}
