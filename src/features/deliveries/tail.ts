/**
 * New deliveries as server-sent events (WHATWG HTML, section 9.2), with their progress.
 *
 * A stream reads news every few seconds, as long as the client reads the stream, and ends after a minute: the client
 * reconnects automatically, and continues after the last event that it got. So an invocation stays far below the platform's
 * limits of queries, and a key that was revoked shows nothing for longer than that.
 */
import { bundleOf, eventAt } from "../../core/bundle.ts";
import { ok } from "../../core/result.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import {
  newTail,
  resumeAfter,
  type Tail,
  type TailedDelivery,
  type TailFilter,
  tailAfter,
  tailStep,
  type Watermarks,
} from "../../store/delivery-tail.ts";
import { tenantService } from "../service.ts";

export const LAST_EVENT_ID = "last-event-id";

export const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
} as const;

/** A step every three seconds, and the number of steps in one response: a minute. */
export const TAIL_EVERY_MS = 3_000;
const STEPS = 20;
/** After how long the client connects again. */
const RETRY_MS = 1_000;

type TailQuery = TailFilter &
  Readonly<{
    /** The id of the last event that the client got; without one, or with an unknown one, the tail begins now. */
    last: string | undefined;
    /** The data of an event. */
    render: (one: TailedDelivery) => string | Promise<string>;
  }>;

/** The stream of one response. The next step is read only when the one before it has been taken. */
export const tailDeliveries = tenantService(
  { scope: "read" },
  async ({ services }, { last, render, ...query }: TailQuery) =>
    ok(await streamOf(services, query, last, render)),
);

/** Reads the database before there is a stream: rejects when that fails. */
async function streamOf(
  services: Services,
  filter: TailFilter,
  last: string | undefined,
  render: TailQuery["render"],
): Promise<ReadableStream<Uint8Array>> {
  const { sleep, log } = services;
  const encoder = new TextEncoder();
  const closed = new AbortController();
  const after = watermarksIn(last);
  let tail: Tail = after ? tailAfter(after) : await newTail(services);
  let steps = 0;

  async function step(): Promise<string> {
    steps += 1;
    const read = await tailStep(services, filter, tail);
    tail = read.tail;
    const messages = [
      ...(read.isGap ? [messageOf("gap", "{}")] : []),
      ...(await Promise.all(read.news.map(async (one) => messageOf("delivery", await render(one))))),
    ];
    // An id without data shows that the connection is alive.
    return `${messages.join("")}id: ${idOf(resumeAfter(tail))}\n\n`;
  }

  const first = `retry: ${RETRY_MS}\nid: ${idOf(tail.after)}\n\n${after ? await step() : ""}`;
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(first)),
      async pull(controller) {
        if (steps === STEPS) return controller.close();
        try {
          await sleep(TAIL_EVERY_MS, closed.signal);
          controller.enqueue(encoder.encode(await step()));
        } catch (error) {
          if (closed.signal.aborted) return;
          log({ what: "tail_failed", fault: faultOf(error) });
          controller.close();
        }
      },
      cancel: () => closed.abort(),
    },
    { highWaterMark: 0 },
  );
}

function messageOf(event: "delivery" | "gap", data: string): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: ${event}\n${lines.join("")}\n`;
}

const NOTHING_YET = "none";

/** An index in a bundle that no event has. */
const BEHIND_ALL = 127;

/** The watermarks are sent as ids that no event has: numbers of bundles would reveal how much others post. */
function idOf(after: Watermarks): string {
  return after.map((bundle) => (bundle === 0 ? NOTHING_YET : eventId(eventAt(bundle, BEHIND_ALL)))).join(".");
}

function watermarksIn(id: string | undefined): Watermarks | undefined {
  const places = id?.split(".").map((place) => {
    const event = eventNumber(place);
    return place === NOTHING_YET ? 0 : event && bundleOf(event);
  });
  return places?.every((place) => place !== undefined) ? places : undefined;
}
