import { setTimeout as sleep } from "node:timers/promises";
import { attemptsMade, deliveryText, remedyAnchor } from "../../../src/pages/ui/status-text.ts";
import { type Breakwater, type Delivery, dataOf, ProblemError } from "../../src/breakwater.ts";
import type { Command, CommandCall } from "../command.ts";
import { exitCodeOf } from "../failure.ts";
import { byId, present } from "../input.ts";
import {
  type Columns,
  filter,
  listCommand,
  print,
  printObject,
  printTable,
  progress,
  remark,
  tableOf,
} from "../output.ts";

const STATES = ["queued", "waiting", "retrying", "delivered", "dead", "cancelled"];

export const deliveryColumns: Columns<Delivery> = {
  id: ({ id }) => id,
  state: ({ state }) => state,
  reason: ({ reason }) => reason,
  attempts: attemptsMade,
  next: ({ next_attempt_at, waiting_until }) => next_attempt_at ?? waiting_until,
};

const onlyTo = filter("destination_id", "deliveries to this destination", "id");

export const deliveryCommands: readonly Command[] = [
  listCommand(
    "/v1/deliveries",
    {
      name: "deliveries list",
      summary: "List deliveries by destination, those of the newest events first",
      options: {
        destination: onlyTo,
        state: { ...filter("state", "deliveries in this state"), choices: STATES },
        reason: filter("reason", "deliveries with this reason, such as circuit_open or http_503"),
        status: filter("status", "deliveries whose last response had this status"),
        tenant: filter("tenant", "deliveries of this tenant", "name"),
        type: filter("type", "deliveries of events of this type"),
        tag: filter("tag", "deliveries of events with this tag"),
        since: filter("since", "deliveries of events that were accepted at this time or later", "time"),
        until: filter("until", "deliveries of events that were accepted before this time", "time"),
        order: {
          value: "order",
          field: "order",
          choices: ["destination", "event"],
          help: "With event: the newest event first, whatever its destinations, queued deliveries too",
        },
      },
    },
    deliveryColumns,
  ),
  {
    name: "deliveries why",
    args: "<id>",
    summary: "Explain in a sentence what a delivery does now, why, and until when",
    details: "With the id of an event it explains each of the event's deliveries.",
    run: why,
  },
  {
    name: "deliveries retry",
    args: "<id>...",
    summary: "Send deliveries again",
    run: retry,
  },
  {
    name: "deliveries cancel",
    args: "<id>...",
    summary: "Cancel deliveries",
    run: cancel,
  },
  {
    name: "tail",
    summary: "Print deliveries and their changes as they happen, until you stop it",
    options: {
      destination: onlyTo,
      tenant: filter("tenant", "deliveries of this tenant", "name"),
      type: filter("type", "deliveries of events of this type"),
      limit: { value: "n", help: "End after n lines" },
    },
    run: tail,
  },
];

async function why(call: CommandCall): Promise<void> {
  if (!call.arg.startsWith("evt_")) {
    const delivery = dataOf(await call.api.GET("/v1/deliveries/{id}", byId(call.arg)));
    const explained = explanationOf(delivery, await acceptedAt(call.api, delivery));
    return call.has("json") ? printObject(call, explained) : printExplanation(call, explained);
  }
  const { timestamp, deliveries } = await eventOf(call.api, call.arg);
  const explained = deliveries.map((delivery) => explanationOf(delivery, Date.parse(timestamp)));
  if (deliveries.length === 0) remark("No destination took the event when it was accepted.");
  if (call.has("json")) printTable(call, explained, {});
  else
    for (const [index, one] of explained.entries()) {
      if (index > 0) print("");
      printExplanation(call, one);
    }
}

/** @param acceptedMs when its event was accepted, epoch ms; only the sentence of a delivered one contains it */
function explanationOf(delivery: Delivery, acceptedMs: number) {
  const { text } = deliveryText(delivery, acceptedMs, Date.now());
  return {
    explanation: text,
    ...present({ until: delivery.waiting_until ?? delivery.next_attempt_at }),
    delivery,
  };
}

function printExplanation(
  call: CommandCall,
  { explanation, until, delivery }: ReturnType<typeof explanationOf>,
): void {
  print(`${explanation}${until ? ` (${until})` : ""}.\n`);
  const { id, event_id, destination_id, give_up_at } = delivery;
  const attempts = attemptsMade(delivery);
  const isOver = ["delivered", "dead", "cancelled"].includes(delivery.state);
  printObject(call, { id, event_id, destination_id, attempts, ...(!isOver && { give_up_at }) });
  if (delivery.log.length > 0) print(`\n${tableOf(delivery.log, logColumns)}`);
  if (!isOver && delivery.reason) print(`\nWhat to do: ${call.url}/docs#${remedyAnchor(delivery.reason)}`);
}

const logColumns: Columns<Delivery["log"][number]> = {
  attempt: ({ at }) => at,
  status: ({ status }) => status,
  ms: ({ latency_ms }) => latency_ms,
  error: ({ error, note }) => error ?? note,
  response: ({ response }) => response?.slice(0, 60),
};

async function eventOf(api: Breakwater, id: string) {
  return dataOf(await api.GET("/v1/events/{id}", byId(id)));
}

/** When its event was accepted, epoch ms; 0 if the sentence does not contain it. */
async function acceptedAt(api: Breakwater, { state, event_id }: Delivery): Promise<number> {
  return state === "delivered" ? Date.parse((await eventOf(api, event_id)).timestamp) : 0;
}

/** The most ids that the API takes at once. */
const IDS_AT_ONCE = 100;

async function retry(call: CommandCall): Promise<number | undefined> {
  const ids = call.args;
  let code: number | undefined;
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE) {
    const body = { delivery_ids: ids.slice(from, from + IDS_AT_ONCE) };
    const { data } = dataOf(await call.api.POST("/v1/deliveries/retry", { body }));
    printTable(
      call,
      data.flatMap(({ delivery }) => delivery ?? []),
      deliveryColumns,
    );
    for (const { id, problem } of data) {
      if (!problem) continue;
      remark(`${id}: ${problem.detail}`);
      code ??= exitCodeOf(problem.status);
    }
    progress(`${Math.min(from + IDS_AT_ONCE, ids.length)} of ${ids.length}`);
  }
  progress("");
  return code;
}

/** A refusal is printed, and the other deliveries are still cancelled. */
async function cancel(call: CommandCall): Promise<number | undefined> {
  const done: Delivery[] = [];
  let code: number | undefined;
  for (const id of call.args) {
    try {
      done.push(dataOf(await call.api.POST("/v1/deliveries/{id}/cancel", byId(id))));
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      remark(`${id}: ${error.message}`);
      code ??= exitCodeOf(error.problem.status);
    }
  }
  printTable(call, done, deliveryColumns);
  return code;
}

/** The server ends a stream after a minute; the next one continues behind the last event. */
async function tail(call: CommandCall): Promise<void> {
  const query = call.fields();
  let left = call.count("limit") ?? Number.POSITIVE_INFINITY;
  for (let last: string | undefined; ; ) {
    const headers = last === undefined ? {} : { "last-event-id": last };
    const result = await call.api.GET("/v1/deliveries/tail", {
      params: { query },
      headers,
      parseAs: "stream",
    });
    const stream: AsyncIterable<Uint8Array> | null = dataOf(result) as never;
    for await (const { id, event, data } of serverSentEvents(stream ?? [])) {
      last = id ?? last;
      if (event === "gap") remark("Some deliveries were omitted: there were more than can be shown");
      if (event !== "delivery") continue;
      print(call.has("json") ? data : lineOf(JSON.parse(data) as Delivery));
      left -= 1;
      if (left <= 0) return undefined;
    }
    await sleep(RECONNECT_MS);
  }
}

const RECONNECT_MS = 1_000;

function lineOf(delivery: Delivery): string {
  return Object.values(deliveryColumns)
    .map((column) => String(column(delivery) ?? "–"))
    .join("  ");
}

/** The events of a stream as Breakwater writes it (WHATWG HTML, section 9.2). */
async function* serverSentEvents(stream: AsyncIterable<Uint8Array> | readonly Uint8Array[]) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = block.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line) ?? []);
      const valuesOf = (wanted: string) =>
        fields.flatMap(([, name, value = ""]) => (name === wanted ? [value] : []));
      yield {
        ...present({ id: valuesOf("id")[0] }),
        event: valuesOf("event")[0] ?? "message",
        data: valuesOf("data").join("\n"),
      };
    }
  }
}
