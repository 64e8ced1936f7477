import { dataOf } from "../../src/breakwater.ts";
import { type Command, EXIT } from "../command.ts";
import { readText } from "../input.ts";
import { print, printTable, remark } from "../output.ts";

export const eventTypeCommands: readonly Command[] = [
  {
    name: "event-types import",
    summary: "Import the webhooks of an OpenAPI document as event types",
    details:
      "Shows what would be done to each type and changes nothing unless --yes is given. A changed schema is published as the next\n" +
      "version where its operation has x-breakwater-conversion. Exits with 8 while there is something to import.",
    options: {
      file: { value: "file", short: "f", help: "A YAML or JSON file; - is standard input. Required" },
      yes: { help: "Import it" },
      "archive-others": { help: "Archive event types that the document does not have" },
    },
    async run(call) {
      const isDryRun = !call.has("yes");
      const body = {
        document: readText(call.needed("file")),
        dry_run: isDryRun,
        archive_others: call.has("archive-others"),
      };
      const { types } = dataOf(await call.api.POST("/v1/event-types/import", { body }));
      printTable(call, types, {
        type: ({ name }) => name,
        action: ({ action }) => action,
        version: ({ version }) => version,
      });
      if (!call.has("json"))
        for (const { name, errors } of types) for (const one of errors) print(`${name}: ${one}`);
      const left = isDryRun && types.some(({ action }) => action !== "keep");
      if (left)
        remark(
          types.some(({ action }) => action === "refuse")
            ? "Nothing would be imported."
            : "--yes imports this.",
        );
      return left ? EXIT.no : EXIT.ok;
    },
  },
];
