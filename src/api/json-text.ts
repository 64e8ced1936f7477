/** Bytes that should be JSON: UTF-8, not nested without end, and what is wrong with them if they are not. */
import { isDeeperThan } from "./exact-json.ts";

/** SQLite's own JSON functions stop at 1,000. */
const MAX_DEPTH = 500;

export type Parsed =
  | Readonly<{ kind: "value"; value: unknown }>
  /** Follows what was read in a sentence: "is not valid JSON". */
  | Readonly<{ kind: "fault"; fault: string }>;

export function parseJson(bytes: Uint8Array, parse: (text: string) => unknown): Parsed {
  const text = decoded(bytes);
  if (text === undefined) return { kind: "fault", fault: `is not UTF-8 at byte ${firstBad(bytes)}` };
  if (isDeeperThan(text, MAX_DEPTH))
    return { kind: "fault", fault: `is nested more than ${MAX_DEPTH} levels deep` };
  try {
    return { kind: "value", value: parse(text) };
  } catch (error) {
    return { kind: "fault", fault: `is not valid JSON: ${withoutQuote((error as Error).message)}` };
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

/** The parser quotes the text around the fault, and with it whatever secret stands there. */
function withoutQuote(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, "");
}
