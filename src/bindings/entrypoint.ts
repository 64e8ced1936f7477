/**
 * The entrypoint that `[[services]]` of another Worker names. It is part of the script that gates and consumers run
 * too, so its work (events.ts) is loaded by its first call.
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import type {
  AcceptedEvent,
  BreakwaterEvents,
  Delivery,
  NewEvent,
  Result,
  SendOptions,
  StoredEvent,
} from "./client.ts";

export class Events extends WorkerEntrypoint<Env> implements BreakwaterEvents {
  async send(event: NewEvent, options?: SendOptions): Promise<Result<AcceptedEvent>> {
    return (await this.#events()).send(event, options);
  }

  async sendBatch(
    events: readonly NewEvent[],
    options?: SendOptions,
  ): Promise<Result<readonly AcceptedEvent[]>> {
    return (await this.#events()).sendBatch(events, options);
  }

  async event(id: string): Promise<Result<StoredEvent>> {
    return (await this.#events()).event(id);
  }

  async delivery(id: string): Promise<Result<Delivery>> {
    return (await this.#events()).delivery(id);
  }

  async #events(): Promise<BreakwaterEvents> {
    const { eventsIn } = await import("./events.ts");
    return eventsIn(this.env, this.ctx);
  }
}
