/** Payloads of events for destinations without a transformation, in every form. */
import type { Payload } from "../core/content.ts";
import { occurrenceOf } from "../core/mcp-events.ts";
import { rendered, templateOf } from "../core/message-templates.ts";
import { eventId } from "../ids.ts";
import { type Destination, isSubscription } from "../store/destination.ts";
import { bodyOfText, plainPayload } from "./http.ts";

type StoredEvent = Readonly<{
  id: number;
  type: string;
  body: Uint8Array<ArrayBuffer>;
  contentType?: string | undefined;
}>;

/** The fields of a destination that determine the payload of an event. */
export type PayloadForm = Pick<Destination, "body" | "template" | "subscriber" | "eventCursor">;

/**
 * The payload of an event for the destination: content as it was posted, or for JSON the envelope, only the data, the
 * form of MCP Events, or the message that its template makes of it.
 */
export function payloadOf(event: StoredEvent, destination: PayloadForm): Payload {
  const { id, type, body, contentType } = event;
  if (contentType !== undefined) return plainPayload(event, destination);
  if (isSubscription(destination)) {
    const about = { id: eventId(id), type, cursor: destination.eventCursor };
    return { body: occurrenceOf(body, about), contentType: "application/json" };
  }
  const template = templateOf(destination.template);
  if (template === undefined) return plainPayload(event, destination);
  const text = rendered(template, new TextDecoder().decode(body));
  return { body: bodyOfText(text), contentType: "application/json" };
}
