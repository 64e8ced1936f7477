/**
 * The bindings of this Worker that destinations may use: those that the operator has listed, with the tenants that may
 * use them.
 */
import { bindingRules } from "./core/destination-bindings.ts";

/** A binding of this Worker that destinations of these tenants may use: a queue that it produces for, or a service. */
export type DestinationBinding = Readonly<{ tenants: "*" | readonly string[] }> &
  (Readonly<{ kind: "queue"; queue: Queue }> | Readonly<{ kind: "service"; service: Fetcher }>);

export type DestinationBindings = ReadonlyMap<string, DestinationBinding>;

/** The bindings that `DESTINATION_BINDINGS` names, and their faults. */
export function destinationBindings(env: object): {
  bindings: DestinationBindings;
  faults: readonly string[];
} {
  const bound = env as Readonly<Record<string, unknown>>;
  const { DESTINATION_BINDINGS: text = "" } = bound;
  const { rules, faults } =
    typeof text === "string" ? bindingRules(text) : { rules: [], faults: ["expected a text"] };
  const found = rules.map(({ name, tenants }) => ({ name, tenants, target: targetIn(bound[name]) }));
  const unusable = found.flatMap(({ name, target }) =>
    "fault" in target ? [`names ${name}, ${target.fault}`] : [],
  );
  return {
    bindings: new Map(
      found.flatMap(({ name, tenants, target }) =>
        "fault" in target ? [] : [[name, { ...target, tenants }] as const],
      ),
    ),
    faults: [...faults, ...unusable].map((fault) => `DESTINATION_BINDINGS ${fault}`),
  };
}

/**
 * The runtime does not report the kind of a binding; a service seems to have every method, because it may be called
 * over RPC.
 */
function targetIn(binding: unknown) {
  if (binding === undefined)
    return { fault: "which is not bound: add it to [[queues.producers]] or [[services]]" };
  if (typeof binding !== "object" || binding === null)
    return { fault: "which is a variable and no binding of a queue or a service" };
  if ("fetch" in binding) return { kind: "service" as const, service: binding as Fetcher };
  if ("sendBatch" in binding) return { kind: "queue" as const, queue: binding as Queue };
  return { fault: "which is bound to neither a queue nor a service" };
}
