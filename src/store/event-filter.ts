/**
 * A destination's filter in SQL, so that it is evaluated in the statement that stores the event and costs
 * no round trip. The filter is read as data and never compiled: what is in it stays a value.
 *
 * Truth has three values here: 1, 0, and NULL for what is not understood, because a person may have edited
 * the column. One NULL and the filter takes everything: a broken filter must not lose an event.
 *
 * In these expressions `c` is a condition: `type` and `value` as json_each gives them, and `at_type` and
 * `at_value` of what the event has at its path. Other aliases are rows of json_each.
 */

/** Whether a test is met by all, or by any, of the members of a JSON; NULL when one is not understood, or none is there. */
function over(json: string, member: string, test: string, quantifier: "all" | "any"): string {
  const fold = quantifier === "all" ? "min" : "max";
  return `(SELECT iif(count(*) = count(met), ${fold}(met), NULL)
    FROM (SELECT ${test} AS met FROM json_each(${json}) ${member}))`;
}

const AT_NUMBER = "(c.at_type IS 'integer' OR c.at_type IS 'real')";
const AT_TEXT = "c.at_type IS 'text'";

/** Whether the value of a row is what is at the path; of the same kind, for SQL takes true for 1. */
function same(row: string): string {
  return `CASE
    WHEN ${row}.type IN ('true', 'false', 'null') THEN c.at_type IS ${row}.type
    WHEN ${row}.type = 'text' THEN ${AT_TEXT} AND c.at_value = ${row}.value
    WHEN ${row}.type IN ('integer', 'real') THEN ${AT_NUMBER} AND c.at_value = ${row}.value END`;
}

/** The operators of a row, as branches of a CASE over its key. */
function comparisons(row: string): string {
  const order = (operator: string) =>
    `CASE WHEN ${row}.type IN ('integer', 'real') THEN ${AT_NUMBER} AND c.at_value ${operator} ${row}.value END`;
  return `
    WHEN 'exists' THEN CASE ${row}.type
      WHEN 'true' THEN c.at_type IS NOT NULL WHEN 'false' THEN c.at_type IS NULL END
    WHEN 'prefix' THEN CASE ${row}.type
      WHEN 'text' THEN ${AT_TEXT} AND substr(c.at_value, 1, length(${row}.value)) = ${row}.value END
    WHEN 'gt' THEN ${order(">")} WHEN 'gte' THEN ${order(">=")}
    WHEN 'lt' THEN ${order("<")} WHEN 'lte' THEN ${order("<=")}`;
}

/** Whether the condition in a row is met: a value, a list of values, or an object of operators. */
function condition(row: string, operator: string, operators: string): string {
  return `CASE ${row}.type
    WHEN 'object' THEN ${over(`${row}.value`, operator, `CASE ${operator}.key ${operators} END`, "all")}
    WHEN 'array' THEN ${over(`${row}.value`, "v", same("v"), "any")}
    ELSE ${same(row)} END`;
}

const DENIED = condition("o", "denied", comparisons("denied"));
const CONDITION = condition("c", "o", `${comparisons("o")} WHEN 'not' THEN NOT (${DENIED})`);

/** The path of a condition within the body; NULL when its key is none: an empty part, or what would need escapes. */
const PATH = `iif('.' || key || '.' GLOB '*..*' OR key GLOB '*["\\' || char(1) || '-' || char(31) || ']*'
  OR instr(key, char(0)), NULL, '$.data."' || replace(key, '.', '"."') || '"')`;

/**
 * Whether a filter lets an event through, 1 or 0.
 *
 * LIMIT keeps SQLite from merging the subquery into the one around it, where what is found at the path would
 * be looked up anew wherever it is named: a statement five times as long, and nine times as long to prepare.
 * @param filter SQL of the destination's column, not null
 * @param body SQL of the event's body, which is JSON
 */
export function letsThrough(filter: string, body: string): string {
  const conditions = `iif(json_valid(${filter}), iif(json_type(${filter}) = 'object', ${filter}, '{}'), '{}')`;
  return `(SELECT coalesce(iif(count(*) = count(met), min(met), 1), 1) FROM (
    SELECT iif(c.path IS NULL, NULL, ${CONDITION}) AS met FROM (
      SELECT type, value, path, json_type(${body}, path) AS at_type, json_extract(${body}, path) AS at_value
      FROM (SELECT type, value, ${PATH} AS path FROM json_each(${conditions})) LIMIT -1) c))`;
}
