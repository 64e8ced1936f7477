import { setTimeout as sleep } from "node:timers/promises";
import { type Breakwater, dataOf, type NewReplay, type Replay } from "../../src/breakwater.ts";
import type { Command } from "../command.ts";
import { byId } from "../input.ts";
import { filter, listCommand, printObject, progress } from "../output.ts";

export const replayCommands: readonly Command[] = [
  {
    name: "replays create",
    args: "<destination>",
    summary: "Send past deliveries of a destination again",
    options: {
      since: {
        ...{ value: "time", field: "since" },
        help: "Of events that were accepted at this time or later (ISO 8601); required",
      },
      until: {
        ...{ value: "time", field: "until" },
        help: "Of events that were accepted before this time; now by default",
      },
      include: {
        ...{ value: "which", field: "include", choices: ["dead", "delivered", "missing"] },
        help: "Those that were given up (the default), that were delivered, or that the destination never got",
      },
      "event-type": { ...filter("event_types", "events of this type", "type"), isList: true },
      tag: filter("tag", "events with this tag"),
      rate: { value: "n", field: "rate_per_minute", isNumber: true, help: "Deliveries per minute at first" },
      wait: { help: "Wait until it has ended, and show its progress" },
    },
    async run(call) {
      const since = call.needed("since");
      const until = new Date().toISOString();
      const body = { until, ...call.fields<NewReplay>(), destination_id: call.arg, since };
      const replay = dataOf(await call.api.POST("/v1/replays", { body }));
      return printObject(call, call.has("wait") ? await ended(call.api, replay) : replay);
    },
  },
  listCommand(
    "/v1/replays",
    {
      name: "replays list",
      summary: "List replays, the newest first",
      options: {
        destination: filter("destination_id", "replays of this destination", "id"),
        state: {
          ...filter("state", "in this state"),
          choices: ["running", "paused", "completed", "cancelled"],
        },
      },
    },
    {
      id: ({ id }) => id,
      destination: ({ destination_id }) => destination_id,
      include: ({ include }) => include,
      state: ({ state, reason }) => (reason ? `${state}: ${reason}` : state),
      requeued: ({ requeued, total }) => `${requeued} of ${total ?? "?"}`,
      delivered: ({ delivered }) => delivered,
      failed: ({ failed }) => failed,
    },
  ),
  {
    name: "replays get",
    args: "<id>",
    summary: "Show a replay and its progress",
    options: { wait: { help: "Wait until it has ended, and show its progress" } },
    async run(call) {
      const replay = await replayOf(call.api, call.arg);
      return printObject(call, call.has("wait") ? await ended(call.api, replay) : replay);
    },
  },
  {
    name: "replays stop",
    args: "<id>",
    summary: "Stop a replay; what it has requeued is still delivered",
    async run(call) {
      return printObject(call, dataOf(await call.api.POST("/v1/replays/{id}/cancel", byId(call.arg))));
    },
  },
];

async function replayOf(api: Breakwater, id: string): Promise<Replay> {
  return dataOf(await api.GET("/v1/replays/{id}", byId(id)));
}

const POLL_MS = 2_000;

async function ended(api: Breakwater, started: Replay): Promise<Replay> {
  let replay = started;
  while (replay.ended_at === null) {
    const { requeued, total, delivered, failed, state, reason } = replay;
    const why = reason ? `${state}: ${reason}` : state;
    progress(`${why}, ${requeued} of ${total ?? "?"} requeued, ${delivered} delivered, ${failed} failed`);
    await sleep(POLL_MS);
    replay = await replayOf(api, replay.id);
  }
  progress("");
  return replay;
}
