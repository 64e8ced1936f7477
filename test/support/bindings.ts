/**
 * Fake bindings of destinations. Both pass what they get to fake receivers, so that tests script and count them like
 * any other receiver: a queue under `queue://NAME`, a service under the URL that it is called with.
 */
import type { DestinationBinding } from "../../src/destination-bindings.ts";
import type { Receivers } from "./receivers.ts";

type Tenants = DestinationBinding["tenants"];

/** A queue that records what is sent. A scripted status other than 2xx makes it throw its number as the runtime does. */
export function queueBinding(receiver: Receivers, name: string, tenants: Tenants = "*"): DestinationBinding {
  const send = async (message: unknown, options: unknown): Promise<void> => {
    const init = {
      method: "POST",
      body: JSON.stringify(message),
      headers: { options: JSON.stringify(options) },
    };
    const response = await receiver.fetch(`queue://${name}`, init);
    if (!response.ok) throw new Error(await response.text());
  };
  return { kind: "queue", tenants, queue: { send, sendBatch: async () => {} } as unknown as Queue };
}

export function serviceBinding(receiver: Receivers, tenants: Tenants = "*"): DestinationBinding {
  return { kind: "service", tenants, service: { fetch: receiver.fetch } as unknown as Fetcher };
}
