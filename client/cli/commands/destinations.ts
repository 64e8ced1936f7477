import { type DestinationChange, dataOf, type NewDestination } from "../../src/breakwater.ts";
import { type Command, type CommandCall, CommandLineError, type CommandOption, EXIT } from "../command.ts";
import { byId, readObject } from "../input.ts";
import { filter, listCommand, print, printObject, printTable, remark } from "../output.ts";

/** Fields with an option; --file takes all fields. */
const fieldOptions: Readonly<Record<string, CommandOption>> = {
  file: {
    value: "file",
    help: "A JSON file with fields of the API; - is standard input. Secrets belong here",
  },
  url: { value: "url", field: "url", help: "The endpoint" },
  uid: { value: "name", field: "uid", help: "Your own name for it" },
  description: { value: "text", field: "description", help: "What it is for" },
  "event-type": {
    ...{ value: "type", field: "event_types", isList: true },
    help: "A type of events that it takes; all without any",
  },
  channel: { value: "channel", field: "channels", isList: true, help: "A channel of events that it takes" },
  rate: { value: "n", field: "rate_per_second", isNumber: true, help: "Attempts per second" },
  concurrency: { value: "n", field: "max_concurrency", isNumber: true, help: "Attempts in flight at once" },
  timeout: { value: "ms", field: "timeout_ms", isNumber: true, help: "How long one attempt may take" },
};

/** The fields of the file, overridden by those of the options. */
function bodyOf(call: CommandCall): Record<string, unknown> {
  const file = call.text("file");
  return { ...(file !== undefined && readObject(file)), ...call.fields() };
}

export const destinationCommands: readonly Command[] = [
  listCommand(
    "/v1/destinations",
    {
      name: "destinations list",
      summary: "List destinations",
      options: { tenant: filter("tenant", "destinations of this tenant", "name") },
    },
    {
      id: ({ id }) => id,
      tenant: ({ tenant }) => tenant,
      uid: ({ uid }) => uid,
      status: ({ status, status_reason }) => (status === "active" ? status : `${status}: ${status_reason}`),
      target: ({ kind, url, binding, queue_id }) => url ?? `${kind}:${binding ?? queue_id}`,
    },
  ),
  {
    name: "destinations get",
    args: "<id>",
    summary: "Show a destination, and whether anything makes its deliveries wait",
    async run(call) {
      const destination = dataOf(await call.api.GET("/v1/destinations/{id}", byId(call.arg)));
      const { circuit, held_until, refusal, waiting } = dataOf(
        await call.api.GET("/v1/destinations/{id}/health", byId(call.arg)),
      );
      return printObject(call, { ...destination, health: { circuit, held_until, refusal, waiting } });
    },
  },
  {
    name: "destinations create",
    summary: "Create a destination, and show its signing secret once",
    options: {
      tenant: { value: "name", field: "tenant", help: "Whose destination it is" },
      ...fieldOptions,
    },
    async run(call) {
      const body = bodyOf(call) as NewDestination;
      return printObject(call, dataOf(await call.api.POST("/v1/destinations", { body })));
    },
  },
  {
    name: "destinations update",
    args: "<id>",
    summary: "Change fields of a destination; null in --file restores a default",
    options: fieldOptions,
    async run(call) {
      const body = bodyOf(call) as DestinationChange;
      if (Object.keys(body).length === 0)
        throw new CommandLineError("destinations update needs a field to change");
      return printObject(
        call,
        dataOf(await call.api.PATCH("/v1/destinations/{id}", { ...byId(call.arg), body })),
      );
    },
  },
  statusCommand("pause", "Pause a destination: its deliveries wait"),
  statusCommand("resume", "Resume a paused destination, which sends what waits"),
  {
    name: "destinations delete",
    args: "<id>",
    summary: "Delete a destination, and cancel what waits for it",
    async run(call) {
      dataOf(await call.api.DELETE("/v1/destinations/{id}", byId(call.arg)));
      remark(`Destination ${call.arg} is deleted`);
    },
  },
  {
    name: "destinations test",
    args: "<id>",
    summary: "Send a test event, and show what the receiver answers",
    details: "Exits with 8 if the receiver does not answer with a status of 200 to 299.",
    options: {
      type: { value: "type", field: "type", help: "A type of the catalogue, whose example is sent" },
    },
    async run(call) {
      const body = call.fields();
      const report = dataOf(await call.api.POST("/v1/destinations/{id}/test", { ...byId(call.arg), body }));
      printObject(call, report);
      const { status = 0 } = report;
      return status >= 200 && status < 300 ? EXIT.ok : EXIT.no;
    },
  },
  {
    name: "certify",
    args: "<id>",
    summary: "Test an endpoint's conformance: valid requests, forged ones, and how fast it answers",
    details:
      "Sends the endpoint at most eight signed requests, whose ids begin with test_; their type is breakwater.test. Its owner must\n" +
      "agree: say so with --consent. Without it the last result is shown. Exits with 8 if the endpoint has not passed.",
    options: { consent: { help: "The owner of the endpoint agrees to the requests" } },
    async run(call) {
      const path = "/v1/destinations/{id}/certification";
      const body = { consent: true } as const;
      const result = dataOf(
        call.has("consent")
          ? await call.api.POST(path, { ...byId(call.arg), body })
          : await call.api.GET(path, byId(call.arg)),
      );
      const { certified, at, checks } = result;
      if (call.has("json")) printObject(call, result);
      else {
        printTable(call, checks, {
          check: ({ check }) => check,
          result: ({ result }) => result,
          status: ({ status, error }) => error ?? status,
          ms: ({ took_ms }) => took_ms,
          id: ({ id }) => id,
        });
        for (const { check, reason, fix } of checks) if (reason) print(`\n${check}: ${reason} ${fix}`);
        remark(`\nThe endpoint has ${certified ? "" : "not "}passed the test of ${at}`);
      }
      return certified ? EXIT.ok : EXIT.no;
    },
  },
  {
    name: "destinations rotate",
    args: "<id>",
    summary: "Replace the signing secret, and show the new one once",
    details: "The replaced secret signs too until the overlap ends, so that receivers can change in between.",
    options: {
      overlap: {
        ...{ value: "seconds", field: "overlap_s", isNumber: true },
        help: "How long both sign; a day by default",
      },
      file: {
        value: "file",
        help: 'A JSON file with the new secret, {"secret": "whsec_…"}; - is standard input',
      },
    },
    async run(call) {
      const { secret_version } = dataOf(await call.api.GET("/v1/destinations/{id}", byId(call.arg)));
      // With the version, a request that an intermediary repeats does not rotate twice.
      const body = { ...bodyOf(call), secret_version };
      const rotated = dataOf(
        await call.api.POST("/v1/destinations/{id}/rotate-secret", { ...byId(call.arg), body }),
      );
      if (!call.has("json")) remark("Give the secret to the receiver: it is not shown again.");
      return printObject(call, rotated);
    },
  },
];

function statusCommand(verb: "pause" | "resume", summary: string): Command {
  return {
    name: `destinations ${verb}`,
    args: "<id>",
    summary,
    async run(call) {
      return printObject(call, dataOf(await call.api.POST(`/v1/destinations/{id}/${verb}`, byId(call.arg))));
    },
  };
}
