/**
 * A kind of destination: the interface between deliveries and where they go. Everything else about a delivery is
 * the same for all kinds: gate, leases, connections, signature, classification, retries, log.
 *
 * A further kind is one file beside this one, which exports a `Kind`, and its line in registry.ts. Its target is
 * stored as one text in `destinations.url`, `scheme:…`, where the scheme is the kind's name. So whatever does not know
 * the kind (an earlier version, a URL parser) refuses the text instead of sending to it.
 */
import type { Config } from "../../config.ts";
import { BINDING_NAME, mayUse } from "../../core/destination-bindings.ts";
import type { DeadReason, RefusalReason } from "../../core/reasons.ts";
import type { TextShape } from "../../core/shape.ts";
import type { Vault } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import type { Connections, Outgoing, PostRequest, Way } from "../http.ts";

export type Kind = Readonly<{
  /** The fields of the API that name a target of this kind, and what each may be. */
  fields: Readonly<Record<string, TextShape>>;
  /** The kind of binding that the field `binding` must name, for kinds that have one. */
  binds?: "queue" | "service";
  /** Faults of the fields together: each of them has its shape. */
  faults: (fields: TargetFields) => TargetFault[];
  /** The text that is stored for fields without faults. */
  textOf: (fields: TargetFields) => string;
  /** The fields of a stored text, without secrets; undefined when it was edited into something else. */
  fieldsOf: (text: string) => TargetFields | undefined;
  /** Why the body can never be delivered to the destination: its deliveries end without an attempt. */
  obstacle: (destination: Target, body: Uint8Array, config: Config) => Obstacle | undefined;
  /** The checks before the gate is called, and how events are posted. */
  prepare: (services: Services, shared: Connections, destination: Destination) => Promise<PreparedSend>;
}>;

export type TargetFields = Readonly<Record<string, string | undefined>>;

/** A field at fault, in the words of the API's problems. */
export type TargetFault = Readonly<{ field: string; fault: string; expected: string }>;

export type Target = Pick<Destination, "url" | "headers" | "sealedHeaders" | "subscriber">;

export type Obstacle = Readonly<{
  reason: Extract<DeadReason, "forbidden_target" | "too_large">;
  /** A sentence. */
  fault: string;
}>;

export type PreparedSend =
  | Readonly<{ kind: "ready"; post: PostRequest }>
  /** The deliveries wait, and the sweep has a drain try again. */
  | Readonly<{ kind: "unready"; reason: RefusalReason }>;

/** The field of every kind that is reached through a binding of this Worker. */
export const bindingField = {
  kind: "text",
  pattern: BINDING_NAME,
  expected: "the name of a binding that the operator has listed for the tenant",
  nullable: true,
  optional: true,
  meta: {
    description:
      "A binding of the deployment's Worker that the operator lets the tenant use (`DESTINATION_BINDINGS`): of kind " +
      "`queue` a queue that it produces for, of kind `service` another Worker.",
    example: "ORDERS",
  },
} as const satisfies TextShape;

/** The errors of a binding. One that the tenant may not use is unknown to it, so that names do not leak. */
export function bindingFaults(
  { destinationBindings }: Pick<Services, "destinationBindings">,
  kind: "queue" | "service",
  name: string | undefined,
  tenant: string,
): TargetFault[] {
  if (name === undefined) return [];
  const binding = destinationBindings?.get(name);
  if (!binding || !mayUse(binding, tenant)) {
    const expected = `a binding that the operator lets the tenant ${tenant} use`;
    return [{ field: "binding", fault: `is ${JSON.stringify(name)}, which is not known`, expected }];
  }
  if (binding.kind === kind) return [];
  const fault = `is ${JSON.stringify(name)}, the binding of a ${binding.kind}`;
  return [{ field: "binding", fault, expected: `the binding of a ${kind}` }];
}

/** The binding of that name, while it is bound and the tenant may use it. */
export function bindingOf<K extends "queue" | "service">(
  { destinationBindings }: Pick<Services, "destinationBindings">,
  kind: K,
  name: string,
  tenant: string,
) {
  const binding = destinationBindings?.get(name);
  if (binding?.kind !== kind || !mayUse(binding, tenant)) return undefined;
  return binding as Extract<typeof binding, { kind: K }>;
}

/** A target that is stored and cannot be read: it was edited by hand. */
export function malformed(expected: string): Obstacle {
  return { reason: "forbidden_target", fault: `The target is malformed; expected ${expected}.` };
}

/** The request of kinds that are called by `fetch`. Redirects are not followed. */
export function requestInit({ headers, body, signal }: Omit<Outgoing, "type" | "way">, way: Way | undefined) {
  return { method: way?.method ?? "POST", redirect: "manual", headers, body, signal } as const;
}

/** What comes of the work, unless the signal ends first: for calls that take no signal. The work itself goes on. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const ended = Promise.withResolvers<never>();
  const end = () => ended.reject(signal.reason);
  if (signal.aborted) end();
  signal.addEventListener("abort", end);
  return Promise.race([work, ended.promise]).finally(() => signal.removeEventListener("abort", end));
}

/** A target's token at rest. It is sealed under another name than signing secrets, so that it cannot be decrypted as one. */
export function sealToken(vault: Vault, destination: string, token: string): Promise<string> {
  return vault.seal(tokenName(destination), token, "token");
}

/** The token. Rejects, with nothing of it in the message, when it cannot be opened. */
export function openToken(vault: Vault, destination: string, sealed: string): Promise<string> {
  return vault.openText(tokenName(destination), "token", sealed);
}

/** The same, sealed with the first master key; undefined when it is, or when there is none. */
export async function rotatedToken(
  vault: Vault,
  { id, targetToken }: Pick<Destination, "id" | "targetToken">,
): Promise<string | undefined> {
  if (targetToken === null || vault.isCurrent(targetToken)) return undefined;
  return vault.sealAgain(tokenName(id), targetToken);
}

function tokenName(destination: string): string {
  return `${destination}.target_token`;
}
