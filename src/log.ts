/**
 * One JSON line for each thing that happened, with ids and without secrets or bodies, for `wrangler tail`
 * and Workers Logs. Lines are named by what happened; every field is flat and has one meaning everywhere.
 */
type Field = string | number | boolean | null | undefined;

export type LogLine = Readonly<{ what: string } & Record<string, Field>>;

export type Log = (line: LogLine) => void;

export const logToConsole: Log = (line) => console.log(JSON.stringify(line));

/** What may be said of an unexpected error: its message, cut, never its stack or its data. */
export function faultOf(error: unknown): string {
  const said = withoutValues(error);
  return (said instanceof Error ? `${said.name}: ${said.message}` : String(said)).slice(0, 200);
}

/** A failed query of Drizzle's names the values that were bound: the database's own words are beneath it. */
function withoutValues(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.startsWith("Failed query:")) return error;
  return error.cause ?? "Failed query";
}
