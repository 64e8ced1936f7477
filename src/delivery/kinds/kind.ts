/**
 * A kind of destination: the interface between deliveries and where they go. Everything else in a delivery is the same
 * for all kinds: gate, leases, connections, signature, classification, retries, log.
 *
 * A further kind is one file beside this one, which exports a `Kind`, and its lines in registry.ts and sending.ts. Its
 * target is stored as one text in `destinations.url`, `scheme:…`, where the scheme is the kind's name. So code that
 * does not know the kind (an earlier version, a URL parser) refuses the text instead of sending to it.
 */
import type { Config } from "../../config.ts";
import type { DeadReason, RefusalReason } from "../../core/reasons.ts";
import type { TextShape } from "../../core/shape.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import type { Connections } from "../connections.ts";
import type { Outgoing, PostRequest, Way } from "../http.ts";

export type Kind = Readonly<{
  /** The fields of the API that name a target of this kind, and what each may be. */
  fields: Readonly<Record<string, TextShape>>;
  /** The kind of binding that the field `binding` must name, for kinds that have one. */
  binds?: "queue" | "service";
  /** Faults of the combination of fields, each of which is valid by itself. */
  faults: (fields: TargetFields) => TargetFault[];
  /** The text that is stored for fields without faults. */
  textOf: (fields: TargetFields) => string;
  /** The fields of a stored text, without secrets; undefined when it was edited into something else. */
  fieldsOf: (text: string) => TargetFields | undefined;
  /** Checks the destination, and then each of its bodies. */
  obstacles: (destination: Target, config: Config) => ObstacleOf;
  /** The checks before the gate is called, and how events are posted. */
  prepare: (services: Services, shared: Connections, destination: Destination) => Promise<PreparedSend>;
}>;

export type TargetFields = Readonly<Record<string, string | undefined>>;

/** A field at fault, in the words of the API's problems. */
export type TargetFault = Readonly<{ field: string; fault: string; expected: string }>;

export type Target = Pick<Destination, "url" | "headers" | "sealedHeaders" | "subscriber">;

type Obstacle = Readonly<{
  reason: Extract<DeadReason, "forbidden_target" | "too_large">;
  /** A sentence. */
  fault: string;
}>;

export type PreparedSend =
  | Readonly<{ kind: "ready"; post: PostRequest }>
  /** The deliveries wait, and the sweep has a drain try again. */
  | Readonly<{ kind: "unready"; reason: RefusalReason }>;

/** Why the body can never be delivered to a destination: its deliveries end without an attempt. */
export type ObstacleOf = (body: Uint8Array) => Obstacle | undefined;

export const noObstacle: ObstacleOf = () => undefined;

/** A target that is stored and cannot be read: it was edited by hand. */
export function malformed(expected: string): ObstacleOf {
  return () => ({ reason: "forbidden_target", fault: `The target is malformed; expected ${expected}.` });
}

/** The request of kinds that are called by `fetch`. Redirects are not followed. */
export function requestInit({ headers, body, signal }: Omit<Outgoing, "type" | "way">, way: Way | undefined) {
  return { method: way?.method ?? "POST", redirect: "manual", headers, body, signal } as const;
}
