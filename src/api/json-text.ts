/** Bytes that should be JSON: UTF-8, not nested without end, and what is wrong with them if they are not. */
import { isDeeperThan } from "./exact-json.ts";

/** SQLite's own JSON functions stop at 1,000. */
const MAX_DEPTH = 500;

export type Parsed =
  | Readonly<{ kind: "value"; value: unknown }>
  /** Follows what was read in a sentence: "is not valid JSON". */
  | Readonly<{ kind: "fault"; fault: string }>;

/** @param isLine whether it is one line of several, which the caller names: a fault has only its column then */
export function parseJson(bytes: Uint8Array, parse: (text: string) => unknown, isLine = false): Parsed {
  const text = decoded(bytes);
  if (text === undefined) return { kind: "fault", fault: `is not UTF-8 at byte ${firstBad(bytes)}` };
  if (isDeeperThan(text, MAX_DEPTH))
    return { kind: "fault", fault: `is nested more than ${MAX_DEPTH} levels deep` };
  try {
    return { kind: "value", value: parse(text) };
  } catch (error) {
    const { message } = error as Error;
    const place = placeIn(text, offsetOf(text, message), isLine);
    return { kind: "fault", fault: `is not valid JSON at ${place}: ${reasonOf(message)}` };
  }
}

/** The text; undefined when the bytes are not UTF-8, or only begin to be when they may go on. */
function decoded(bytes: Uint8Array, goesOn = false): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes, { stream: goesOn });
  } catch {
    return undefined;
  }
}

/** Where the bytes stop being UTF-8, counted from 1; found by halving, for the decoder does not say. */
function firstBad(bytes: Uint8Array): number {
  let [good, bad] = [0, bytes.byteLength + 1];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (decoded(bytes.subarray(0, middle), true) === undefined) bad = middle;
    else good = middle;
  }
  return Math.min(bad, bytes.byteLength);
}

/** Where the parser stopped. It says so of some faults; of an unexpected token it does not, but of an early end. */
function offsetOf(text: string, message: string): number {
  const said = / at position (\d+)/.exec(message)?.[1];
  if (said !== undefined) return Number(said);
  if (!message.startsWith("Unexpected token")) return text.length;
  // The shortest beginning that has the same fault ends with the token; found by halving.
  const fault = reasonOf(message);
  let [without, within] = [0, text.length];
  while (within - without > 1) {
    const middle = (without + within) >> 1;
    if (faultOf(text.slice(0, middle)) === fault) within = middle;
    else without = middle;
  }
  return without;
}

function faultOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return reasonOf((error as Error).message);
  }
}

/** Lines and columns count from 1, as an editor shows them. */
function placeIn(text: string, offset: number, isLine: boolean): string {
  const before = text.slice(0, offset).split("\n");
  const column = `column ${(before.at(-1)?.length ?? 0) + 1}`;
  return isLine ? column : `line ${before.length} ${column}`;
}

/**
 * What the parser says less where, which is said apart. It quotes the text around the fault, and with it whatever
 * secret stands there: the quote goes.
 */
function reasonOf(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, "").replace(/( in JSON)? at position .*$/s, "");
}
