/** `/llms.txt`: the reference in short, as Markdown, for agents that write code against this deployment (https://llmstxt.org). */
import { recipeOf } from "../../core/signature-forms.ts";
import { snippetOf } from "../../pages/portal/snippets.ts";
import { type Document, neededScope } from "../openapi/document.ts";
import { problemStatuses, problemTypes } from "../problem-types.ts";
import { curlOf, operationsOf } from "./reference.tsx";
import { remedies, steps } from "./remedies.ts";

/** @param origin the deployment's */
export function llmsText(document: Document, origin: string): string {
  return [
    `# Breakwater\n\n> ${document.info.description}`,
    `A request needs an API key, as \`Authorization: Bearer …\`. Schemas: [Markdown](${origin}/openapi.md),
[OpenAPI](${origin}/openapi.json) and [TypeScript types](${origin}/openapi.d.ts); for people: [the reference](${origin}/docs). Agents can also use the MCP server at
\`${origin}/mcp\`, with the same keys.`,
    `## Post an event\n\nCreate a destination once, and store the \`secret\` of the answer. Then post:\n\n${[
      exampleOf(document, origin, "/v1/destinations"),
      exampleOf(document, origin, "/v1/events"),
    ].join("\n\n")}`,
    `## Receive events\n\n${RECEIVING}\n\n${fenced("js", snippetOf("node", recipeOf({ form: "standard" })))}`,
    `## A delivery has not arrived\n\n${steps.map((step, i) => `${i + 1}. ${step}`).join("\n")}\n\n${remedies
      .map(({ reason, meaning, remedy }) => `- \`${reason}\`: ${meaning} ${remedy}`)
      .join("\n")}`,
    `## Operations\n\n${document.tags.map(({ name }) => operationsIn(document, name)).join("\n\n")}`,
    `## Errors\n\n${problemStatuses
      .map((status) => `- ${status}, ${problemTypes[status].title}: ${problemTypes[status].remedy}`)
      .join("\n")}`,
  ]
    .join("\n\n")
    .concat("\n");
}

const RECEIVING = `Deliveries are POSTs, at least once and in no order.

- Verify the signature over the raw body, as it came, before anything is parsed.
- Answer with 2xx within seconds, and process the event afterwards. Other statuses are retried, but most 4xx end the delivery; 410
  pauses the destination; 429 and 503 with \`Retry-After\` hold it.
- A delivery may come again: ignore a \`webhook-id\` that has been processed.`;

function exampleOf(document: Document, origin: string, path: string): string {
  const operation = document.paths[path]?.post;
  return operation ? fenced("sh", curlOf({ method: "post", path, operation, origin })) : "";
}

function operationsIn(document: Document, tag: string): string {
  const lines = operationsOf(document, tag).map(({ method, path, operation }) => {
    const scope = neededScope(operation);
    return `- \`${method.toUpperCase()} ${path}\`: ${operation.summary}${scope ? ` (scope \`${scope}\`)` : ""}`;
  });
  return [`### ${tag}`, "", ...lines].join("\n");
}

function fenced(language: string, code: string): string {
  return `\`\`\`${language}\n${code.trimEnd()}\n\`\`\``;
}
