/** Compares a response with the OpenAPI document: status, content type and body. */
import { type Described, document } from "./operations.ts";
import { schemaFaults } from "./schema-faults.ts";

type Answer = Readonly<{ status: number; headers: Headers; text: string }>;

/** The faults of the answer in words; empty when it is as documented. */
export function responseFaults({ operation }: Described, { status, headers, text }: Answer): string[] {
  const promised = operation.responses[String(status)];
  if (promised === undefined) return [`the status ${status} is not documented`];
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  if (promised.content === undefined) return text === "" ? [] : ["a body where none is documented"];
  const media = promised.content[type];
  if (media === undefined) return [`the type ${type} is not documented for ${status}`];
  if (!/[/+]json$/.test(type)) return [];
  return schemaFaults(media.schema, JSON.parse(text), document.components.schemas);
}
