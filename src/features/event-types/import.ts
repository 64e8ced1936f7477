/**
 * The import of an OpenAPI document's webhooks into the catalogue of event types: all of them or none. A schema that has changed
 * is the type's next version where the document has a conversion. Without one it replaces the schema of a type that has but one
 * version, and is refused for others: conversions are written for the data of their version.
 */
import { changesBetween } from "../../core/audit.ts";
import { canonicalJson } from "../../core/canonical-json.ts";
import type { JsonSchema } from "../../core/json-schema.ts";
import { dataFaults } from "../../core/json-schema-check.ts";
import { isJsonObject, parseExactly } from "../../core/json-value.ts";
import { conflict, type FieldError, invalidField, invalidFields, ok } from "../../core/result.ts";
import type { Services } from "../../services.ts";
import {
  type EventType,
  type EventTypeWrite,
  eventTypesByName,
  listTypeNames,
  MOST_TYPES,
  putEventTypes,
} from "../../store/event-types.ts";
import { service } from "../service.ts";
import { isFaulty, type WebhookType, webhooksIn } from "./openapi-webhooks.ts";
import type { ImportAction } from "./schema.ts";
import { changingTypes, hasOtherShape, jsonOrNone, storedExactly, storedJson } from "./service.ts";
import { conversionErrors, exampleErrors, tooManyVersions } from "./versions.ts";

type Import = Readonly<{
  /** An object, or its text as YAML or JSON. */
  document: string | Readonly<Record<string, unknown>>;
  /** The field that the document came in, for errors. */
  field: string;
  isDryRun: boolean;
  /** Whether types that are not in the document are archived. */
  replaces: boolean;
}>;

/** An event type as the import leaves it, or would leave it. */
export type ImportedType = Readonly<{
  name: string;
  action: ImportAction;
  /** The newest version afterwards; null for a type that is archived. */
  version: number | null;
  /** Why it is refused. */
  errors: readonly FieldError[];
  /** As the document has it; undefined for a type that is archived. */
  webhook: WebhookType | undefined;
}>;

/** Characters of a document. */
export const MAX_DOCUMENT = 1024 * 1024;
/** Characters of all types together: they are parameters of one statement. */
const MAX_IMPORTED = 1_500_000;

/** Puts all types into the catalogue, or none. A dry run returns refused types; otherwise they refuse the import. */
export const importEventTypes = service(
  changingTypes,
  async ({ services, changed }, { document, field, isDryRun, replaces }: Import) => {
    const webhooks = await webhooksOf(document);
    if (isFaulty(webhooks))
      return invalidFields(
        webhooks.map(({ pointer, ...rest }) => ({
          field,
          ...rest,
          fault: `${pointer} ${rest.fault}`.trim(),
        })),
      );
    const { db, now } = services;
    const names = webhooks.map(({ name }) => name);
    const before = await eventTypesByName(db, names);
    const planned = await Promise.all(
      webhooks.map((one) => plannedType(services, field, one, before.get(one.name))),
    );
    const writes = planned.flatMap(({ write }) => write ?? []);
    const size = JSON.stringify(writes.map(({ seen: _, ...row }) => row)).length;
    if (size > MAX_IMPORTED)
      return invalidField(
        field,
        `gives types of ${size} characters`,
        `at most ${MAX_IMPORTED}: import the document in parts`,
      );
    const all = replaces ? await listTypeNames(db, MOST_TYPES) : [];
    const archived = all.filter((name) => !names.includes(name)).map(archivedType);
    const types: ImportedType[] = [...planned.map(({ write: _, ...type }) => type), ...archived];
    if (isDryRun || types.every(({ action }) => action === "keep")) return ok(types);
    const errors = types.flatMap((type) => type.errors);
    if (errors.length > 0) return invalidFields(errors);
    if (!(await putEventTypes(db, writes, replaces ? names : undefined, now())))
      return refusedWrite(services, field, writes);
    for (const { name, action, version } of types) {
      if (action === "keep") continue;
      const changes =
        action === "publish" ? changesBetween({ version: before.get(name)?.version }, { version }) : null;
      changed("event_type.changed", { id: name, tenant: null }, changes);
    }
    return ok(types);
  },
);

async function refusedWrite({ db }: Services, field: string, writes: readonly EventTypeWrite[]) {
  const names = writes.map(({ name }) => name);
  const now = await eventTypesByName(db, names);
  if (writes.some(({ name, seen }) => now.get(name)?.updatedAt !== seen?.updatedAt))
    return conflict("The event types are being changed by other requests at the same time");
  const expected = `at most ${MOST_TYPES} types in the catalogue, archived ones included`;
  return invalidField(field, "has more types than there is room for", expected);
}

async function webhooksOf(document: Import["document"]) {
  if (typeof document !== "string") return webhooksIn(document);
  if (document.length > MAX_DOCUMENT) {
    const fault = `is ${document.length} characters long`;
    return [{ pointer: "", fault, expected: `at most ${MAX_DOCUMENT}` }];
  }
  const read = await parsedDocument(document);
  if (typeof read !== "string") return webhooksIn(read);
  return [{ pointer: "", fault: read, expected: "an OpenAPI document: an object" }];
}

const UNREADABLE = "cannot be read as YAML or JSON";
/** Characters of an error of the library, which may repeat a part of the document. */
const MAX_MESSAGE = 100;

/**
 * The document, or a fault for text that is neither YAML nor JSON, is not an object, or nests deeper than the stack. YAML
 * is a superset of JSON. The library refuses aliases that multiply; those that are left are copied.
 */
async function parsedDocument(text: string): Promise<Readonly<Record<string, unknown>> | string> {
  const { LineCounter, parseDocument, visit } = await import("yaml");
  const lineCounter = new LineCounter();
  try {
    const parsed = parseDocument(text, { lineCounter, prettyErrors: false });
    const [error] = parsed.errors;
    if (error) {
      const { line } = lineCounter.linePos(error.pos[0]);
      // The library's message recommends another of its functions.
      const why = error.code === "MULTIPLE_DOCS" ? "Another document begins" : error.message;
      return `${UNREADABLE}, line ${line}: ${why.slice(0, MAX_MESSAGE)}`;
    }
    visit(parsed, {
      Scalar(key, scalar) {
        if (key !== "key") scalar.value = scalarValue(scalar);
      },
    });
    const value = parseExactly(JSON.stringify(parsed.toJS()));
    return isJsonObject(value) ? value : UNREADABLE;
  } catch {
    return UNREADABLE;
  }
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/** The value of a scalar of YAML; a number with its digits, if JSON spells it in this way but for a plus and leading zeros. */
function scalarValue({
  value,
  source = "",
}: Readonly<{ value: unknown; source?: string | undefined }>): unknown {
  if (typeof value !== "number") return value;
  const spelled = source.replace(/^\+/, "").replace(/^(-?)0+(?=\d)/, "$1");
  return JSON_NUMBER.test(spelled) ? JSON.rawJSON(spelled) : value;
}

type PlannedType = ImportedType & Readonly<{ write?: EventTypeWrite }>;

async function plannedType(
  services: Services,
  field: string,
  webhook: WebhookType,
  before: EventType | undefined,
): Promise<PlannedType> {
  const { name, conversion } = webhook;
  const row = importedRow(webhook, before);
  const write = { ...row, archivedAt: null, seen: before };
  if (before === undefined) return { name, action: "create", version: 1, errors: [], webhook, write };
  const { version } = before;
  const isNew = hasOtherShape(row, before);
  const next = version + 1;
  const errors = await (conversion !== undefined
    ? isNew
      ? publicationErrors(services, webhook, before, conversion)
      : conversionErrors(conversion)
    : isNew && version > 1
      ? [missingConversion(version)]
      : []);
  if (errors.length > 0) {
    const placed = errors.map(({ fault, expected }) => ({
      field,
      fault: `${webhook.conversionAt} ${fault}`,
      expected,
    }));
    return { name, action: "refuse", version, errors: placed, webhook };
  }
  if (isNew && conversion !== undefined) {
    const publication = { ...write, example: jsonOrNone(webhook.example), conversion };
    return { name, action: "publish", version: next, errors, webhook, write: publication };
  }
  if (!isChange(row, before)) return { name, action: "keep", version, errors, webhook };
  return { name, action: "change", version, errors, webhook, write };
}

function missingConversion(version: number): FieldError {
  return {
    field: "",
    fault: `is missing, and the schema is not that of version ${version}`,
    expected:
      `Liquid that makes data of version ${version} of the new data, ` +
      '"{{ data | json }}" where the new schema only adds fields, or the schema as it was',
  };
}

async function publicationErrors(
  services: Services,
  { example }: WebhookType,
  before: EventType,
  conversion: string,
): Promise<FieldError[]> {
  const next = before.version + 1;
  const errors = [...tooManyVersions(next), ...(await conversionErrors(conversion))];
  if (errors.length > 0 || example === undefined) return errors;
  return exampleErrors(services, before, example, conversion);
}

function archivedType(name: string): ImportedType {
  return { name, action: "archive", version: null, errors: [], webhook: undefined };
}

type ImportedRow = Pick<EventType, "name" | "description" | "schema" | "example">;

/** Without a schema in the document, a type keeps the one that it has; and its example, where that fits still. */
function importedRow(
  { name, description, schema, example }: WebhookType,
  before: EventType | undefined,
): ImportedRow {
  const stored = jsonOrNone(schema) ?? before?.schema ?? null;
  const shape = storedJson(stored) as JsonSchema | null;
  const fits = (one: string | null) =>
    one !== null && (shape === null || dataFaults(shape, storedJson(one)).length === 0);
  const examples = [jsonOrNone(example), before?.example ?? null];
  return { name, description, schema: stored, example: examples.find(fits) ?? null };
}

function isChange(row: ImportedRow, before: EventType): boolean {
  const isOther = (column: "schema" | "example") =>
    canonicalJson(storedExactly(row[column])) !== canonicalJson(storedExactly(before[column]));
  return (
    before.archivedAt !== null ||
    row.description !== (before.description ?? "") ||
    isOther("schema") ||
    isOther("example")
  );
}
