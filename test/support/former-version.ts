/**
 * What an isolate sends that still runs the former version, 0.3.0: a queue message, a request to a gate or to an intake
 * has the fields that this version knew, and none that were added since. The receiving side must do without them.
 */
import type { AdmitRequest } from "../../src/core/admit.ts";
import type { SettleRequest } from "../../src/core/settle.ts";
import type { IntakeRequest } from "../../src/ingest/intake-protocol.ts";
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

const INTAKE_REQUEST: readonly (keyof IntakeRequest)[] = [
  ...(["version", "database", "tenant", "type", "body", "deliverAt", "options"] as const),
  ...(["token", "key", "deadlineAt", "triedAt"] as const),
];
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
      return method === "settle" ? [only(request, SETTLE_REQUEST), ...others] : [request, ...others];
    }),
    ...(intake && { intake: interceptedArguments(intake, (_, [request]) => [formerIntakeRequest(request)]) }),
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

/** A request of a version that the former one did not know was none of its. */
function formerIntakeRequest(request: unknown): unknown {
  const former = only(request, INTAKE_REQUEST) as { version: number };
  return { ...former, version: Math.min(former.version, FORMER_INTAKE_VERSION) };
}

function only(value: unknown, fields: readonly string[]): object {
  return Object.fromEntries(Object.entries(value as object).filter(([name]) => fields.includes(name)));
}
