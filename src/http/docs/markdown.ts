/** `/openapi.md`: the OpenAPI document as Markdown, each operation and each schema under a heading of its own. */
import { type Document, neededScope, type Operation } from "../openapi/document.ts";
import { resolved, type SchemaObject } from "../openapi/examples.ts";
import { type DocumentedField, documentedFieldsOf, typeWords } from "./fields.tsx";
import { curlOf, type DescribedOperation, operationsOf, parameterFields } from "./reference.tsx";

/** @param origin to which the examples send their requests */
export function referenceMarkdown(document: Document, origin: string): string {
  const { info, tags, components } = document;
  const named = Object.entries(components.schemas).map(([name, schema]) => {
    const fields = fieldLines(documentedFieldsOf(schema, components.schemas), false);
    return [`### ${name}`, ...fields].join("\n\n");
  });
  return [
    `# ${info.title}\n\n${info.description}`,
    ...tags.flatMap(({ name }) => [
      `## ${name}`,
      ...operationsOf(document, name).map((one) => operationText(document, one, origin)),
    ]),
    "## Schemas",
    ...named,
  ]
    .join("\n\n")
    .concat("\n");
}

function operationText(document: Document, described: DescribedOperation, origin: string): string {
  const { method, path, operation } = described;
  const { schemas } = document.components;
  const { summary, description, security, requestBody } = operation;
  const scope = neededScope(operation);
  const access = security.length === 0 ? "without a key" : scope ? `scope \`${scope}\`` : "any key";
  const bodies = Object.entries(requestBody?.content ?? {}).flatMap(([type, { schema }]) => [
    `Body, \`${type}\`:`,
    ...fieldLines(documentedFieldsOf(resolved(schema, schemas), schemas), true),
  ]);
  const parameters = fieldLines(parameterFields(operation), true);
  return [
    `### ${summary}`,
    `\`${method.toUpperCase()} ${path}\`, ${access}`,
    ...(description === undefined ? [] : [description]),
    ...(parameters.length === 0 ? [] : ["Parameters:", ...parameters]),
    ...bodies,
    `\`\`\`sh\n${curlOf({ ...described, origin })}\n\`\`\``,
    Object.entries(operation.responses).map(answerLine).join("\n"),
  ].join("\n\n");
}

type Answered = Operation["responses"][string];

function answerLine([status, { description, content = {} }]: [string, Answered]): string {
  const types = Object.entries(Number(status) < 400 ? content : {}).map(
    ([type, { schema }]) => `${wordsOf(schema)} as \`${type}\``,
  );
  return `- ${status}: ${description}${types.length === 0 ? "" : ` (${types.join(" or ")})`}`;
}

function wordsOf(schema: SchemaObject): string {
  return typeWords(schema)
    .map(({ text }) => text)
    .join("");
}

/** A list, as one paragraph; nothing where there are no fields. */
function fieldLines(fields: readonly DocumentedField[], marksRequired: boolean): string[] {
  if (fields.length === 0) return [];
  const lines = fields.map(({ name, type, isRequired, limits, values, description }) => {
    const facts = [
      type.map(({ text }) => text).join(""),
      ...(marksRequired && isRequired ? ["required"] : []),
      ...(values.length > 0 ? [`one of ${values.map((value) => `\`${value}\``).join(", ")}`] : []),
      ...limits,
    ];
    return `- \`${name}\` (${facts.join("; ")})${description === undefined ? "" : `: ${description}`}`;
  });
  return [lines.join("\n")];
}
