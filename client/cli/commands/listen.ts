import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { NewDestination, PolledEvent } from "../../src/api.ts";
import { dataOf, ProblemError } from "../../src/breakwater.ts";
import { type Command, type CommandCall, CommandLineError } from "../command.ts";
import { byId, present } from "../input.ts";
import { filter, print, remark } from "../output.ts";

export const listenCommand: Command = {
  name: "listen",
  args: "<port|url>",
  summary: "Forward events to a server on this machine, until you stop it",
  details:
    "Creates a polled destination, and forwards its events with the headers and the signature of a delivery. Ctrl-C\n" +
    "removes the destination. If the command is killed, the destination stays, and the same command continues with the\n" +
    "events since then. An event that the server does not answer comes again; every answer is shown, and counts.",
  options: {
    types: {
      ...filter("event_types", "events of this type, or of types with a prefix: order.*", "type"),
      isList: true,
    },
    tenant: { value: "name", field: "tenant", help: "Whose events; `default` otherwise" },
    destination: { value: "id", help: "Fetch from this polled destination, which stays" },
    since: { value: "time", help: "Begin with the events that were accepted since this time (ISO 8601)" },
    replay: { value: "id", help: "Begin with this event" },
    concurrency: { value: "n", help: "Requests at a time; 10 otherwise" },
  },
  run: listen,
};

const CONSUMER = "listen";
const PAGE = { consumer: CONSUMER, limit: 100, wait_s: 30, visibility_s: 120 } as const;
/** The seconds until an event that was not answered comes again, and until the next request after a failure. */
const AGAIN_S = 5;
/** The seconds until an event that could not be converted to the destination's version comes again. */
const UNCONVERTED_AGAIN_S = 60;
const ANSWER_MS = 60_000;

async function listen(call: CommandCall): Promise<void> {
  const target = targetOf(call.arg);
  // A page without a request is committed as if all of its events had been forwarded.
  const concurrency = call.count("concurrency") ?? 10;
  const given = call.text("destination");
  const { id, secret } =
    given === undefined ? await destinationFor(call, target) : { id: given, secret: undefined };
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort());
  process.once("SIGTERM", () => stop.abort());
  await replayFor(call, id);
  remark(`Forwarding ${id} to ${target}${secret ? `; its secret is ${secret}` : ""}. Stop with Ctrl-C.`);
  while (!stop.signal.aborted) {
    try {
      await forwardPage(call, { id, target, concurrency }, stop.signal);
    } catch (error) {
      if (stop.signal.aborted) break;
      if (error instanceof ProblemError && error.problem.status < 500 && error.problem.status !== 429)
        throw error;
      remark(`${(error as Error).message}; trying again in ${AGAIN_S} s`);
      await sleep(AGAIN_S * 1000, undefined, { signal: stop.signal }).catch(() => {});
    }
  }
  if (given === undefined) dataOf(await call.api.DELETE("/v1/destinations/{id}", byId(id)));
}

/** A port of this machine, or a URL. */
function targetOf(given: string): string {
  const address = /^\d+$/.test(given) ? `http://127.0.0.1:${given}/` : given;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url.href;
  throw new CommandLineError("listen needs a port or a URL, as in breakwater listen 3000");
}

/** The destination that an earlier run with the same arguments has left, or a new one. */
async function destinationFor(call: CommandCall, target: string) {
  const fields = call.fields<NewDestination>();
  const { event_types: types, tenant } = fields;
  const about = [hostname(), target, ...(types ?? [])].join(" ");
  const uid = `listen-${await digestOf(about)}`;
  const body = { kind: "poll", uid, description: `breakwater listen: ${about}`.slice(0, 200) } as const;
  const created = await call.api.POST("/v1/destinations", { body: { ...body, ...fields } });
  if (created.response.status !== 409) return dataOf(created);
  for await (const one of call.api.list("/v1/destinations", present({ tenant })))
    if (one.uid === uid) return { id: one.id, secret: undefined };
  return dataOf(created);
}

async function digestOf(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Buffer.from(digest).toString("hex").slice(0, 32);
}

/** Starts a replay of the events that were accepted before the destination existed. */
async function replayFor(call: CommandCall, id: string): Promise<void> {
  const event = call.text("replay");
  const since =
    call.text("since") ?? (event && dataOf(await call.api.GET("/v1/events/{id}", byId(event))).timestamp);
  if (since === undefined) return;
  const until =
    event === undefined ? new Date().toISOString() : new Date(Date.parse(since) + 1).toISOString();
  const body = { destination_id: id, since, until, include: "missing", rate_per_minute: 6000 } as const;
  const { total } = dataOf(await call.api.POST("/v1/replays", { body }));
  remark(`${total ?? "Some"} earlier events follow by a replay`);
}

/** Forwards the next page, several events at a time, and commits it: a page that is not committed comes again. */
async function forwardPage(
  call: CommandCall,
  { id, target, concurrency }: Readonly<{ id: string; target: string; concurrency: number }>,
  signal: AbortSignal,
) {
  const params = { path: { id }, query: PAGE };
  const { data, iterator } = dataOf(await call.api.GET("/v1/destinations/{id}/poll", { params, signal }));
  const waiting = [...data];
  const unanswered: PolledEvent[] = [];
  const work = async () => {
    for (let event = waiting.shift(); event && !signal.aborted; event = waiting.shift())
      if (!(await forward(call, event, target, signal))) unanswered.push(event);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, data.length) }, work));
  if (data.length === 0 || signal.aborted) return;
  const body = {
    consumer: CONSUMER,
    iterator,
    return: unanswered.map((one) => ({
      id: one.id,
      retry_after_s: one.fault === undefined ? AGAIN_S : UNCONVERTED_AGAIN_S,
    })),
  };
  dataOf(await call.api.POST("/v1/destinations/{id}/poll/commit", { params: { path: { id } }, body }));
}

/** Posts an event, and prints the outcome; returns false if there was no answer. */
async function forward(
  call: CommandCall,
  { id, type, headers, body, body_base64: base64, fault }: PolledEvent,
  target: string,
  stop: AbortSignal,
): Promise<boolean> {
  const startedAt = Date.now();
  const signal = AbortSignal.any([stop, AbortSignal.timeout(ANSWER_MS)]);
  let status: number | undefined;
  let answer: string;
  try {
    if (fault !== undefined) throw new Error(fault);
    const content = base64 === undefined ? (body ?? "") : Buffer.from(base64, "base64");
    const response = await fetch(target, {
      method: "POST",
      headers,
      body: content,
      redirect: "manual",
      signal,
    });
    status = response.status;
    answer = (await response.text()).replaceAll(/\s+/g, " ").slice(0, 100);
  } catch (error) {
    answer = String((error as { cause?: Error }).cause?.message ?? (error as Error).message);
  }
  const ms = Date.now() - startedAt;
  if (call.has("json")) print(JSON.stringify({ id, type, status: status ?? null, latency_ms: ms, answer }));
  else
    print(
      [
        new Date().toISOString(),
        status ?? (fault === undefined ? "no answer" : "not sent"),
        `${ms} ms`,
        type,
        id,
        answer,
      ]
        .join("  ")
        .trimEnd(),
    );
  return status !== undefined;
}
