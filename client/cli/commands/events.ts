import { plural } from "../../../src/pages/ui/format.ts";
import { dataOf, type Event, type NewEvent } from "../../src/breakwater.ts";
import { type Command, type CommandCall, CommandLineError, type CommandOption } from "../command.ts";
import { parsedWithDigits } from "../exact-numbers.ts";
import { byId, jsonFrom, readText } from "../input.ts";
import { filter, listCommand, print, printObject, progress, remark, tableOf } from "../output.ts";
import { deliveryColumns } from "./deliveries.ts";

/** Within the API's 1,000 events and 1 MB of a batch; an event has 256 KB at most. */
const BATCH = { events: 500, characters: 250_000 };

/** Options about one event. */
const ofOneEvent: Readonly<Record<string, CommandOption>> = {
  data: { value: "json", help: "The data" },
  file: { value: "file", help: "A file with the data; - is standard input, the default" },
  tenant: { value: "name", field: "tenant", help: "Whose event it is" },
  "deliver-at": { value: "time", field: "deliver_at", help: "Do not deliver it before this time (ISO 8601)" },
  ttl: {
    ...{ value: "seconds", field: "ttl", isNumber: true },
    help: "Give up its deliveries after this many seconds",
  },
  tag: { value: "tag", field: "tags", isList: true, help: "A name to list and replay its deliveries by" },
  channel: { value: "channel", field: "channels", isList: true, help: "A channel of it" },
  destination: {
    ...{ value: "id", field: "destination_ids", isList: true },
    help: "Only this destination gets it",
  },
  "idempotency-key": { value: "key", help: "Repeated with the same key, the event is stored once" },
};

export const eventCommands: readonly Command[] = [
  {
    name: "events post",
    args: "[type]",
    summary: "Post an event, or a file of events",
    details:
      "The data is JSON, from --data, from --file or from standard input. With --lines, the file has one event as JSON on each\n" +
      "line, with its `type` and its `data`, and is posted in batches.",
    options: {
      ...ofOneEvent,
      lines: { value: "file", help: "A file of events, one on each line; - is standard input" },
    },
    async run(call) {
      const lines = call.text("lines");
      if (lines !== undefined) return postLines(call, lines);
      if (call.arg === "") throw new CommandLineError("events post needs a type, or --lines");
      const key = call.text("idempotency-key");
      const { body, json } = eventOf(call);
      const event = dataOf(
        await call.api.POST("/v1/events", {
          ...{ body, bodySerializer: () => json },
          ...(key !== undefined && { params: { header: { "idempotency-key": key } } }),
        }),
      );
      if (call.has("json")) return printObject(call, event);
      print(
        `${event.id}  ${plural(event.deliveries.length, "delivery", "deliveries")}${event.deliver_at ? `, at ${event.deliver_at}` : ""}`,
      );
      for (const { id } of event.deliveries) print(`  ${id}`);
      if (event.hint) remark(event.hint);
    },
  },
  {
    name: "events get",
    args: "<id>",
    summary: "Show an event with its data and its deliveries",
    async run(call) {
      const answer = await call.api.GET("/v1/events/{id}", { ...byId(call.arg), parseAs: "text" });
      const event = parsedWithDigits(dataOf(answer)) as Event;
      if (call.has("json")) return printObject(call, event);
      const { deliveries, ...fields } = event;
      printObject(call, fields);
      if (deliveries.length > 0) print(`\n${tableOf(deliveries, deliveryColumns)}`);
    },
  },
  listCommand(
    "/v1/events",
    {
      name: "events list",
      summary: "List events, the newest first",
      options: {
        tenant: filter("tenant", "events of this tenant", "name"),
        type: filter("type", "events of this type, or of types with a prefix: order.*"),
        tag: filter("tag", "events with this tag"),
        since: filter("since", "events that were accepted at this time or later (ISO 8601)", "time"),
        until: filter("until", "events that were accepted before this time", "time"),
      },
    },
    {
      id: ({ id }) => id,
      time: ({ timestamp }) => timestamp,
      tenant: ({ tenant }) => tenant,
      type: ({ type }) => type,
      tags: ({ tags }) => tags?.join(" "),
    },
  ),
];

/** The event, and its JSON with the data as it was written: as values, numbers have no more than sixteen digits. */
function eventOf(call: CommandCall): Readonly<{ body: NewEvent; json: string }> {
  const given = call.text("data");
  const text = given ?? readText(call.text("file") ?? "-");
  const data = jsonFrom(text, given === undefined ? "The data" : "--data");
  const fields = { type: call.arg, ...call.fields<Omit<NewEvent, "data">>() };
  return { body: { ...fields, data }, json: `${JSON.stringify(fields).slice(0, -1)},"data":${text}}` };
}

/**
 * Refuses what is about one event, so that no event of a file goes to another tenant than was meant.
 * @throws CommandLineError
 */
function refuseOfOne(call: CommandCall): void {
  const option = Object.keys(ofOneEvent).find((name) => call.text(name) !== undefined);
  const given = call.arg === "" ? option && `--${option}` : call.arg;
  if (given !== undefined)
    throw new CommandLineError(
      `${given} is for one event: with --lines, each line has all fields of its event`,
    );
}

/** Posts the events of a file. After a refused batch nothing more is posted, and the error names the line. */
async function postLines(call: CommandCall, file: string): Promise<void> {
  refuseOfOne(call);
  const lines = readText(file)
    .split("\n")
    .map((text, at) => ({ text, number: at + 1 }))
    .filter(({ text }) => text.trim() !== "");
  const events = lines.map(({ text, number }) => ({
    event: jsonFrom(text, `Line ${number}`) as NewEvent,
    number,
    text,
  }));
  for (let from = 0; from < events.length; ) {
    const to = endOfBatch(events, from);
    const batch = events.slice(from, to);
    try {
      const body = { events: batch.map(({ event }) => event) };
      const json = `{"events":[${batch.map(({ text }) => text).join(",")}]}`;
      const accepted = dataOf(await call.api.POST("/v1/events/batch", { body, bodySerializer: () => json }));
      if (call.has("json")) for (const one of accepted.events) print(JSON.stringify(one));
    } catch (error) {
      progress("");
      remark(
        `${from} events were posted; line ${batch[0]?.number} and what follows were not (it is events[0])`,
      );
      throw error;
    }
    from = to;
    progress(`${from} of ${events.length} events posted`);
  }
  progress("");
  if (!call.has("json")) print(`${plural(events.length, "event")} posted`);
}

function endOfBatch(events: readonly Readonly<{ text: string }>[], from: number): number {
  let characters = 0;
  let to = from;
  while (to < events.length && to - from < BATCH.events) {
    characters += events[to]?.text.length ?? 0;
    if (to > from && characters > BATCH.characters) break;
    to += 1;
  }
  return to;
}
