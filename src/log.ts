/**
 * One JSON line per event in the operation of Breakwater, with ids and without secrets or bodies, for
 * `wrangler tail` and Workers Logs. `what` names it; every field is flat and has one meaning everywhere.
 */
type Field = string | number | boolean | null | undefined;

export type LogLine = Readonly<{ what: string } & Record<string, Field>>;

export type Log = (line: LogLine) => void;

export const logToConsole: Log = (line) => console.log(JSON.stringify(line));

/** What may be logged of an unexpected error: its message, truncated; never its stack or its data. */
export function faultOf(error: unknown): string {
  const safe = withoutValues(error);
  return (safe instanceof Error ? `${safe.name}: ${safe.message}` : String(safe)).slice(0, 200);
}

/** The message of Drizzle's query errors contains the bound values; the database's own error is its cause. */
function withoutValues(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.startsWith("Failed query:")) return error;
  return error.cause ?? "Failed query";
}
