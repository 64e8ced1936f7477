/**
 * One JSON line per event in the operation of Breakwater, with ids and without secrets or bodies, for
 * `wrangler tail` and Workers Logs. `what` names it; every field is flat and has one meaning everywhere.
 */
type Field = string | number | boolean | null | undefined;

export type LogLine = Readonly<{ what: string } & Record<string, Field>>;

export type Log = (line: LogLine) => void;

export const logToConsole: Log = (line) => writeToConsole(textOf(line));

const writeToConsole = (text: string): void => console.log(text);

/** Characters of a text in a line: more than any id, name or error has. Lists of ids and paths may be longer. */
const LONGEST_TEXT = 500;

function textOf(line: LogLine): string {
  return JSON.stringify(line, (_, value) =>
    typeof value === "string" && value.length > LONGEST_TEXT ? `${value.slice(0, LONGEST_TEXT)}…` : value,
  );
}

/**
 * Bytes of lines of an invocation. The platform takes 256 KB, request and exception included, and drops what comes after:
 * https://developers.cloudflare.com/workers/observability/logs/workers-logs/#limits
 */
const MOST_BYTES = 200_000;
/** Bytes for lines of attempts, which can be a thousand: the invocation's other reports need room, too. */
const MOST_BYTES_OF_ATTEMPTS = 150_000;
/** An object that lives long may log more, as time passes. */
const BYTES_PER_SECOND = 500;

type BoundedLog = Readonly<{
  log: Log;
  /** Logs how many lines have been left out so far, unless that has been logged. To be called at the end of a task. */
  logOmitted: () => void;
}>;

/** The log of one invocation, bounded in bytes. Beyond that, only the number of lines is logged. */
export function boundedLog(now: () => number, write = writeToConsole): BoundedLog {
  const startedAt = now();
  let bytes = 0;
  let omitted = 0;
  let reported = 0;

  function log(line: LogLine): void {
    const text = textOf(line);
    const size = encoder.encode(text).byteLength + 1;
    const grown = ((now() - startedAt) / 1_000) * BYTES_PER_SECOND;
    const most = (line.what === "attempt" ? MOST_BYTES_OF_ATTEMPTS : MOST_BYTES) + grown;
    if (bytes + size > most) {
      omitted += 1;
      return;
    }
    bytes += size;
    write(text);
  }

  function logOmitted(): void {
    if (omitted === reported) return;
    reported = omitted;
    write(textOf({ what: "lines_omitted", lines: omitted }));
  }

  return { log, logOmitted };
}

const encoder = new TextEncoder();

/** Returns the part of an unexpected error that may be logged: its message, truncated; never its stack or its data. */
export function faultOf(error: unknown): string {
  const safe = withoutBoundValues(error);
  return (safe instanceof Error ? `${safe.name}: ${safe.message}` : String(safe)).slice(0, 200);
}

/** The message of Drizzle's query errors contains the bound values; the database's own error is its cause. */
function withoutBoundValues(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.startsWith("Failed query:")) return error;
  return error.cause ?? "Failed query";
}

/** The result of the work; if it fails, undefined, and a line with the error is logged. */
export async function orLogged<T>(
  { log }: Readonly<{ log: Log }>,
  line: LogLine,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    log({ ...line, error: faultOf(error) });
    return undefined;
  }
}
