/** The tools that change something. Each is in the audit trail as an agent's. */
import { conflict, mapOk } from "../../core/result.ts";
import { repairDeliveries, retryDeliveries } from "../../features/deliveries/repairs.ts";
import { destinationChange, destinationDraft, destinationView } from "../../features/destinations/schema.ts";
import { rotateSecret, secretRotation } from "../../features/destinations/secrets.ts";
import {
  getDestination,
  pauseDestination,
  resumeDestination,
  testDestination,
  updateDestination,
} from "../../features/destinations/service.ts";
import { eventType, nonEmptyList, strict } from "../../features/parameters.ts";
import { newReplay } from "../../features/replays/schema.ts";
import { cancelReplay, replayView, startReplay } from "../../features/replays/service.ts";
import { limitsOf, statusOf } from "../../store/destination.ts";
import { deliveryIdField, destinationIdField, linkTo, replayIdField } from "./fields.ts";
import { beginning, changingTool, outside, type Tool } from "./tool.ts";

/** Deliveries of one call. */
const MOST_DELIVERIES = 50;

const deliveryIdsInput = strict({
  delivery_ids: nonEmptyList(deliveryIdField, MOST_DELIVERIES, "ids of deliveries"),
});

type StatusTool = Readonly<{ title: string; description: string; service: typeof pauseDestination }>;

/** A tool that sets the status of a destination. */
function statusTool(name: string, { service, ...about }: StatusTool): Tool {
  return changingTool({
    ...{ name, ...about, permission: service.permission, isIdempotent: true },
    input: strict({ destination_id: destinationIdField }),
    run: async (call, { destination_id: id }) =>
      mapOk(await service(call, id), ({ tenant, statusReason, ...row }) => {
        const status = statusOf({ status: row.status });
        return { id, tenant, status, status_reason: statusReason, page: linkTo(call, "destinations", id) };
      }),
  });
}

const { timeout_ms, max_concurrency, rate_per_second, rate_burst } = destinationChange.shape;

const { overlap_s, secret_version } = secretRotation.shape;

export const changingTools: readonly Tool[] = [
  changingTool({
    name: "retry_deliveries",
    title: "Send deliveries again",
    description:
      "Sends deliveries that have ended once more, with as many attempts as new ones. Each is sent or refused separately. " +
      "Repair the receiver first.",
    permission: retryDeliveries.permission,
    input: deliveryIdsInput,
    run: async (call, { delivery_ids }) =>
      mapOk(await retryDeliveries(call, delivery_ids), (retried) => ({
        results: retried.map(({ id, result }) =>
          result.kind === "ok"
            ? { id, state: result.value.state, reason: result.value.reason }
            : { id, refused: result.detail },
        ),
      })),
  }),

  changingTool({
    name: "cancel_deliveries",
    title: "Cancel deliveries",
    description:
      "Ends deliveries that are queued, waiting or to be retried: they are not sent. They can be sent again later.",
    permission: repairDeliveries.permission,
    isDestructive: true,
    isIdempotent: true,
    input: deliveryIdsInput,
    run: async (call, { delivery_ids: ids }) => {
      const repaired = await repairDeliveries(call, { action: "cancel", chosen: { kind: "selected", ids } });
      return mapOk(repaired, ({ done: cancelled, skipped }) => ({ cancelled, skipped }));
    },
  }),

  changingTool({
    name: "start_replay",
    title: "Start a replay",
    description:
      "Sends the dead, delivered or missing deliveries of a destination in a period once more, at a rate that adapts to its " +
      "receiver. get_replay shows its progress.",
    permission: startReplay.permission,
    input: strict({ ...newReplay.shape, destination_id: destinationIdField }),
    run: async (call, input) => mapOk(await startReplay(call, input), replayView),
  }),

  changingTool({
    name: "cancel_replay",
    title: "Cancel a replay",
    description: "Ends a replay: it sends nothing more.",
    permission: cancelReplay.permission,
    isDestructive: true,
    isIdempotent: true,
    input: strict({ replay_id: replayIdField }),
    run: async (call, { replay_id }) => mapOk(await cancelReplay(call, replay_id), replayView),
  }),

  statusTool("pause_destination", {
    title: "Pause a destination",
    description: "Its deliveries wait until it is resumed.",
    service: pauseDestination,
  }),
  statusTool("resume_destination", {
    title: "Resume a destination",
    description: "What waits is sent, beginning with one attempt at a time. Repair the receiver first.",
    service: resumeDestination,
  }),
  changingTool({
    name: "set_limits",
    title: "Set a destination's limits",
    description: "Fields that are left out keep their values; null resets a limit to its default.",
    permission: updateDestination.permission,
    isDestructive: true,
    isIdempotent: true,
    input: strict({
      destination_id: destinationIdField,
      timeout_ms,
      max_concurrency,
      rate_per_second,
      rate_burst,
    }),
    run: async (call, { destination_id: id, ...change }) => {
      const updated = await updateDestination(call, { id, change, requestUrl: call.origin });
      return mapOk(updated, (row) => ({ id, ...limitsOf(row) }));
    },
  }),

  changingTool({
    name: "set_filter",
    title: "Set which events a destination takes",
    description:
      "Fields that are left out keep their values; null removes the condition. Try them with preview_filter first: events " +
      "that it does not take are not delivered.",
    permission: updateDestination.permission,
    isDestructive: true,
    isIdempotent: true,
    input: strict({ destination_id: destinationIdField, ...destinationDraft.shape }),
    run: async (call, { destination_id: id, ...change }) => {
      const updated = await updateDestination(call, { id, change, requestUrl: call.origin });
      return mapOk(updated, (row) => {
        const { event_types, channels, filter } = destinationView(row);
        return { id, event_types, channels, ...outside({ filter }) };
      });
    },
  }),

  changingTool({
    name: "rotate_secret",
    title: "Rotate an ed25519 key",
    description:
      "Replaces the key pair of a destination that signs with ed25519; the new public key is shown. A shared secret is not " +
      "rotated here, because it would have to be shown: do that in the dashboard or the portal.",
    permission: rotateSecret.permission,
    isDestructive: true,
    input: strict({ destination_id: destinationIdField, overlap_s, secret_version }),
    run: async (call, { destination_id: id, ...rotation }) => {
      const found = await getDestination(call, id);
      if (found.kind !== "ok") return found;
      const page = linkTo(call, "destinations", id);
      if (destinationView(found.value).signature !== "ed25519")
        return conflict(
          `The destination signs with a shared secret, which no agent may see: rotate it at ${page}`,
        );
      return mapOk(await rotateSecret(call, { id, ...rotation }), ({ row, shown }) => {
        const { secret_version, previous_secrets } = destinationView(row);
        return { id, secret_version, previous_secrets, public_key: shown.public_key, page };
      });
    },
  }),

  changingTool({
    name: "send_test_event",
    title: "Send a test event",
    description:
      "Sends a signed test event to the destination at once, even when it is paused or its circuit is open, and shows the " +
      "answer. At most once in five seconds.",
    permission: testDestination.permission,
    isOpen: true,
    input: strict({
      destination_id: destinationIdField,
      type: eventType.optional().describe("A type of the catalogue that has an example."),
    }),
    run: async (call, { destination_id: id, type }) => {
      const tested = await testDestination(call, { id, type });
      return mapOk(tested, ({ response, response_headers, location, sent: _, ...result }) => ({
        ...result,
        ...outside({ response_headers, location, ...(response && { response: beginning(response) }) }),
      }));
    },
  }),
];
