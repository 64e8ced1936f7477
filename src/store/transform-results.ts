/**
 * Results of transformations in code, stored before they are sent: code may return a different result each time, and a
 * delivery must have the same bytes on every attempt. A row for each delivery, in its event's database; it is removed
 * with the event's content. Templates need no rows, because their results are reproducible.
 *
 * Raw SQL: `json_each` takes any number of rows, and the first result of a delivery stays, even if other isolates
 * report others.
 */
import type { DeliveryKey } from "../core/bundle.ts";
import { parsedJson } from "../core/json-value.ts";
import { readAs, type Shape } from "../core/shape.ts";
import type { TransformFault, TransformOutput } from "../core/transform/result.ts";
import { inShares } from "./bundles.ts";
import { type Databases, repeatable, select } from "./databases.ts";
import { bundleIdOf, inPortions, isErasedSql } from "./sql.ts";

/** The result of code for an event, or why there is none. */
export type TransformResult = DeliveryKey &
  Readonly<{ version: number }> &
  (
    | Readonly<{ made: TransformOutput }>
    /** It is not loaded, because the results before it are too much at once. */
    | Readonly<{ withheld: true }>
    /** `stopped`: it was ended from outside, and may succeed at another time. */
    | Readonly<{ fault: TransformFault; stopped: boolean }>
  );

type Row = Readonly<{
  eventId: number;
  destinationId: string;
  version: number;
  made: string | null;
  fault: string | null;
}>;

/** Characters of results that are loaded at once from a database, as with bodies (deliveries.ts). */
const HELD_CHARACTERS = 8_000_000;

const COLUMNS = `r.event_id AS eventId, r.destination_id AS destinationId, r.version, r.fault,
  iif(sum(length(r.made)) OVER (ORDER BY w.key) > ${HELD_CHARACTERS}, NULL, r.made) AS made`;
const LISTED = `json_each(?1) w CROSS JOIN transform_results r
  ON r.event_id = w.value ->> 'eventId' AND r.destination_id = w.value ->> 'destinationId'`;

const READ = `SELECT ${COLUMNS} FROM ${LISTED}`;

/** Nothing is stored for an event whose content has been erased, or that is gone. */
const STORE = repeatable(`
  INSERT INTO transform_results (event_id, destination_id, version, made, fault)
  SELECT w.value ->> 'eventId', w.value ->> 'destinationId', w.value ->> 'version', w.value ->> 'made', w.value ->> 'fault'
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = ${bundleIdOf("(w.value ->> 'eventId')")}
  WHERE NOT ${isErasedSql("b.header", "(w.value ->> 'eventId')")}
  ON CONFLICT DO UPDATE SET version = excluded.version, made = excluded.made, fault = excluded.fault
  WHERE iif(json_valid(made), json_type(made) NOT IN ('object', 'null'), true)`);

/** Results for which another isolate has stored different ones. */
const OTHERS = `SELECT ${COLUMNS} FROM ${LISTED} WHERE r.made IS NOT w.value ->> 'made'`;

const text = { kind: "text", optional: true } as const;
const place = { kind: "number", optional: true } as const;
const storedOutput = {
  kind: "object",
  nullable: true,
  fields: {
    body: text,
    contentType: text,
    headers: { kind: "record", of: { kind: "text" }, optional: true },
    method: text,
    path: text,
    query: text,
  },
} as const satisfies Shape;
const storedFault = {
  kind: "object",
  fields: {
    field: { kind: "text" },
    fault: { kind: "text" },
    line: place,
    column: place,
    stopped: { kind: "boolean" },
  },
} as const satisfies Shape;

/** After an edit by hand. Another version of the transformation makes it anew. */
const UNREADABLE = {
  fault: { field: "code", fault: "has a result that cannot be read; save it again" },
  stopped: false,
} as const;

/** The stored results of the deliveries, as far as there are any. */
export async function readTransformResults(
  databases: Databases,
  deliveries: readonly DeliveryKey[],
): Promise<readonly TransformResult[]> {
  const found = await inShares(databases, deliveries, (db, share) => select<Row>(db, READ, share));
  return found.map(resultOf);
}

/** Stores results that are not stored yet. Returns those that stand in place of others. */
export async function storeTransformResults(
  databases: Databases,
  results: readonly TransformResult[],
): Promise<readonly TransformResult[]> {
  const found = await inShares(databases, results.map(rowOf), (db, share) =>
    db.batch<Row>(
      inPortions(share).flatMap((rows) => [STORE, OTHERS].map((sql) => db.prepare(sql).bind(rows))),
    ),
  );
  return found.flatMap(({ results }) => results.map(resultOf));
}

function rowOf(result: TransformResult): Row {
  const { eventId, destinationId, version } = result;
  const key = { eventId, destinationId, version };
  if ("made" in result) return { ...key, made: JSON.stringify(result.made), fault: null };
  if ("withheld" in result) throw new Error("A result that was not loaded cannot be stored");
  const { fault, stopped } = result;
  return { ...key, made: null, fault: JSON.stringify({ ...fault, stopped }) };
}

function resultOf({ eventId, destinationId, version, made, fault }: Row): TransformResult {
  const key = { eventId, destinationId, version };
  if (made === null && fault === null) return { ...key, withheld: true };
  if (made !== null) {
    const output = readAs(storedOutput, parsedJson(made));
    return { ...key, ...(output === undefined ? UNREADABLE : { made: output }) };
  }
  const read = readAs(storedFault, parsedJson(fault ?? ""));
  if (read === undefined) return { ...key, ...UNREADABLE };
  const { stopped, ...rest } = read;
  return { ...key, fault: rest, stopped };
}

const FUNCTIONS_OFF = "SELECT functions_off AS isOff FROM tenant_settings WHERE tenant = ?1";

/** Whether the operator has switched the tenant's functions off. */
export async function hasFunctionsOff({ db }: Pick<Databases, "db">, tenant: string): Promise<boolean> {
  return (await db.prepare(FUNCTIONS_OFF).bind(tenant).first<{ isOff: number }>())?.isOff === 1;
}
