/**
 * Converts messages and calls to those of the former version, 0.3.0: queue messages and requests to gates and intakes
 * have only the fields that this version knew. The receiving side must do without the newer ones.
 */
import type { AdmitRequest } from "../../src/core/admit.ts";
import type { SettleRequest } from "../../src/core/settle.ts";
import type { IntakeRpc } from "../../src/ingest/intake-protocol.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { interceptedArguments } from "./intercept.ts";

const DELIVERY_MESSAGE: readonly (keyof DeliveryMessage)[] = ["bundles", "owner"];

const DRAIN_MESSAGE = [
  ...["destination", "drains", "replay", "erasure", "deadLetterDigest"],
  ...["sweep", "page", "until", "retention", "kept"],
];

const ADMIT_REQUEST: readonly (keyof AdmitRequest)[] = [
  ...(["lane", "deliveries", "probe", "most", "lookedUpMsAgo", "succeeds"] as const),
  ...(["connections", "startWithinMs"] as const),
];

const SETTLE_REQUEST: readonly (keyof SettleRequest)[] = ["lease", "signals", "left", "tatInMs", "continues"];

const FORMER_INTAKE_VERSION = 2;

/** The services of an invocation of the former version, over those of one that runs this version. */
export function ofFormerVersion(services: Services): Services {
  const { deliveries, drains, gates, intake } = services;
  return {
    ...services,
    deliveries: formerQueue(deliveries, DELIVERY_MESSAGE),
    drains: formerQueue(drains, DRAIN_MESSAGE),
    gates: interceptedArguments(gates, (method, [request, ...others]) => {
      if (method === "admit") return [only(request, ADMIT_REQUEST), ...others];
      if (method === "hold") return [request];
      return method === "settle" ? [only(request, SETTLE_REQUEST), ...others] : [request, ...others];
    }),
    ...(intake && {
      intake: interceptedArguments(intake, (_, request) => [
        formerIntakeRequest(...(request as Parameters<IntakeRpc["accept"]>)),
      ]),
    }),
  };
}

function formerQueue<Message>(queue: Queue<Message>, fields: readonly string[]): Queue<Message> {
  const former = (body: Message) => only(body, fields) as Message;
  return {
    send: (body: Message, options?: QueueSendOptions) => queue.send(former(body), options),
    sendBatch: (messages: Iterable<MessageSendRequest<Message>>) =>
      queue.sendBatch([...messages].map((message) => ({ ...message, body: former(message.body) }))),
    metrics: () => queue.metrics(),
  } as Queue<Message>;
}

/** The former version passed one argument. */
function formerIntakeRequest(...[, database, entry]: Parameters<IntakeRpc["accept"]>): unknown {
  const { events, token, key, deadlineAt, triedAt } = entry;
  return { version: FORMER_INTAKE_VERSION, database, ...events[0], token, key, deadlineAt, triedAt };
}

function only(value: unknown, fields: readonly string[]): object {
  return Object.fromEntries(Object.entries(value as object).filter(([name]) => fields.includes(name)));
}
