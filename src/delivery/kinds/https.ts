/** Destinations of the kind `https`: endpoints on the internet, behind the guard against server-side request forgery. */
import type { TextShape } from "../../core/shape.ts";
import { transformedUrl } from "../../core/transform/url.ts";
import { isSubscription } from "../../store/destination.ts";
import { resolve, targetFault } from "../url-guard.ts";
import { type Kind, noObstacle, type ObstacleOf, type PreparedSend, requestInit } from "./kind.ts";

const URL_EXPECTED = "an https URL";
/** The largest body that MCP Events sends to a subscription. */
const MOST_OCCURRENCE_BYTES = 256 * 1024;

const url = {
  kind: "text",
  expected: URL_EXPECTED,
  optional: true,
  meta: {
    description: "The endpoint, of kind `https` and only of that.",
    example: "https://example.com/webhooks",
  },
} as const satisfies TextShape;

const tooLargeToOccur: ObstacleOf = (body) =>
  body.byteLength <= MOST_OCCURRENCE_BYTES
    ? undefined
    : {
        reason: "too_large",
        fault: "The event is larger than 256 KiB, the most that MCP Events sends.",
      };

export const https = {
  fields: { url },

  faults: (fields) =>
    fields.url === undefined ? [{ field: "url", fault: "is missing", expected: URL_EXPECTED }] : [],

  textOf: (fields) => fields.url ?? "",

  fieldsOf: (text) => ({ url: text }),

  obstacles({ url, subscriber }, { allowPrivateDestinations, ownHosts }) {
    const fault = targetFault(url, allowPrivateDestinations, ownHosts);
    if (fault !== undefined) return () => ({ reason: "forbidden_target", fault });
    return isSubscription({ subscriber }) ? tooLargeToOccur : noObstacle;
  },

  /** Where the deployment has a resolver, the name must lead to no private address. The query takes a connection. */
  async prepare(services, shared, { id, url }): Promise<PreparedSend> {
    const ready: PreparedSend = {
      kind: "ready",
      post: ({ way, ...sent }) => services.fetch(transformedUrl(url, way), requestInit(sent, way)),
    };
    if (!services.config.dnsResolver) return ready;
    const resolution = await shared.run(id, () => resolve(services, url));
    switch (resolution.kind) {
      case "public":
        return ready;
      case "private":
        services.log({ what: "address_forbidden", destination: id, address: resolution.address });
        return { kind: "unready", reason: "forbidden_address" };
      case "unknown":
        services.log({ what: "resolver_failed", destination: id, error: resolution.fault });
        return { kind: "unready", reason: "unresolved" };
    }
  },
} as const satisfies Kind;
