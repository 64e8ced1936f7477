/**
 * Explains why a delivery has not arrived, and what to do about it: the words of the troubleshooting guide, with the
 * present state.
 */
import type { Result } from "../../core/result.ts";
import { getDeliveryInFull } from "../../features/deliveries/service.ts";
import { getDestinationHealth } from "../../features/destinations/health.ts";
import { deliveryText } from "../../pages/ui/status-text.ts";
import { statusOf } from "../../store/destination.ts";
import { remedies } from "../docs/remedies.ts";
import { linkTo, nameShown } from "./fields.ts";
import { type AgentCall, beginning, outside } from "./tool.ts";

/** Attempts that an explanation shows, the newest of them. */
const ATTEMPTS_SHOWN = 3;

export async function explanationOf(call: AgentCall, id: string): Promise<Result<unknown>> {
  const found = await getDeliveryInFull(call, id);
  if (found.kind !== "ok") return found;
  const { delivery, event, destination } = found.value;
  const { state, reason, last_error, log, destination_id, event_id, transform_fault, ...progress } = delivery;
  const isOpen = state === "waiting" || state === "retrying" || state === "queued";
  const health = destination && isOpen ? await getDestinationHealth(call, destination_id) : undefined;
  const now = health?.kind === "ok" ? health.value : undefined;
  const cause = last_error === reason ? undefined : last_error;
  return {
    kind: "ok",
    value: {
      ...progress,
      state,
      ...(reason && { reason }),
      summary: deliveryText(delivery, event.acceptedAt, call.services.now()).text,
      ...remedyOf(reason),
      // Code words its own faults.
      ...(transform_fault && outside({ transform_fault })),
      ...(cause && { last_failure: { cause, ...remedyOf(cause) } }),
      last_attempts: log.slice(-ATTEMPTS_SHOWN).map(({ response, note, archived: _, ...attempt }) => ({
        ...attempt,
        ...((response ?? note) !== undefined &&
          outside({ ...(note && { note }), ...(response && { response: beginning(response, 1_000) }) })),
      })),
      event: { id: event_id, type: event.type, page: linkTo(call, "events", event_id) },
      destination: destination
        ? {
            id: destination_id,
            status: statusOf(destination),
            ...(destination.statusReason && { paused_because: destination.statusReason }),
            ...(now && {
              circuit: now.circuit,
              circuit_until: now.circuit_until,
              held_until: now.held_until,
              last_15_minutes: now.last_15_minutes,
              waiting: now.waiting,
            }),
            page: linkTo(call, "destinations", destination_id),
            ...nameShown(destination),
          }
        : { id: destination_id, status: "deleted" },
    },
  };
}

/** The meaning of a reason, and its remedy; nothing if a delivery needs none. */
export function remedyOf(reason: string | undefined): Readonly<{ meaning?: string; remedy?: string }> {
  const isNamed = (name: string) => remedies.find((one) => one.reason.split(", ").includes(name));
  const found =
    reason === undefined
      ? undefined
      : (isNamed(reason) ?? (reason.startsWith("http_") ? isNamed("http_500 and the like") : undefined));
  return found ? { meaning: found.meaning, remedy: found.remedy } : {};
}
