/**
 * Destinations of the kind `poll`: nothing is sent, consumers fetch (features/polling). An event that is due when it is
 * accepted is in the inbox by the commit itself (store/inbox.ts). Others come here when they are due: they are put into the
 * inbox's log of late events.
 */
import { POLLED_TARGET } from "../../core/inbox.ts";
import { atInbox } from "../../gate/inbox-client.ts";
import { eventNumber } from "../../ids.ts";
import { unlessAborted } from "../../time.ts";
import { ExchangeFailure } from "../http.ts";
import { type Kind, malformed, noObstacle, type PreparedSend } from "./kind.ts";

export const poll = {
  fields: {},
  faults: () => [],
  textOf: () => POLLED_TARGET,
  fieldsOf: (text) => (text === POLLED_TARGET ? {} : undefined),
  obstacles: ({ url }) => (url === POLLED_TARGET ? noObstacle : malformed(POLLED_TARGET)),

  async prepare(services, _shared, { id }): Promise<PreparedSend> {
    return {
      kind: "ready",
      post: async ({ headers, signal }) => {
        const event = eventNumber(headers["webhook-id"] ?? "");
        // Nothing else is stored, so nothing else can be fetched.
        if (event === undefined) throw new ExchangeFailure("network", "An inbox takes stored events only");
        const keptSince = services.now() - services.config.retentionMs;
        const placed = atInbox(services, id, "placeInInbox", event, keptSince);
        if (!(await unlessAborted(placed, signal))) throw new Error("The inbox cannot be reached");
        return new Response(null, { status: 202 });
      },
    };
  },
} as const satisfies Kind;
