/**
 * A search as it was typed: an id, or words and conditions.
 *
 * Words are searched literally and in any case: only quotation marks have a special meaning, because they keep words
 * together.
 */

/** The subject of a condition. */
export const conditions = [
  "type",
  "tag",
  "state",
  "reason",
  "status",
  "destination",
  "tenant",
  "since",
  "until",
] as const;
type Condition = (typeof conditions)[number];

export type SearchQuery = Readonly<{
  words: readonly string[];
  /** As typed: the caller validates the values. The last of two with the same name counts. */
  conditions: Readonly<Partial<Record<Condition, string>>>;
}>;

const TOKEN = /(?:([a-z]+):)?"([^"]*)"|(\S+)/gu;

/** @param isReason whether a word alone is the reason of a delivery; `isState` likewise */
export function parseSearch(
  typed: string,
  {
    isReason,
    isState,
  }: Readonly<{ isReason: (word: string) => boolean; isState: (word: string) => boolean }>,
): SearchQuery {
  const words: string[] = [];
  const found: Partial<Record<Condition, string>> = {};
  let isQuoted = false;
  for (const [, quotedName, quoted, plain = ""] of typed.matchAll(TOKEN)) {
    const at = plain.indexOf(":");
    const name = quoted === undefined ? plain.slice(0, Math.max(0, at)) : quotedName;
    const value = quoted ?? plain.slice(at + 1);
    if (isCondition(name) && value !== "") found[name] = value;
    else if (quoted === undefined) words.push(plain);
    else {
      isQuoted = true;
      words.push(...(quotedName === undefined ? [] : [`${quotedName}:`]), ...(quoted === "" ? [] : [quoted]));
    }
  }
  const [word, ...others] = words;
  if (word === undefined || others.length > 0 || isQuoted || Object.keys(found).length > 0)
    return { words, conditions: found };
  if (/^[1-5]\d\d$/.test(word)) return { words: [], conditions: { status: word } };
  if (isReason(word)) return { words: [], conditions: { reason: word } };
  return isState(word) ? { words: [], conditions: { state: word } } : { words, conditions: {} };
}

function isCondition(name: string | undefined): name is Condition {
  return conditions.some((one) => one === name);
}

/**
 * Checks that the texts contain each word, in any case.
 * @returns the position of the first word that only `body` has; undefined when a word is missing
 */
export function findWords(
  words: readonly string[],
  names: readonly string[],
  body?: string,
): Readonly<{ at: number | undefined }> | undefined {
  const lowerNames = names.map((name) => name.toLowerCase());
  const lowerBody = body?.toLowerCase();
  let at: number | undefined;
  for (const word of words) {
    const lower = word.toLowerCase();
    if (lowerNames.some((name) => name.includes(lower))) continue;
    const place = lowerBody === undefined ? -1 : indexOf(lowerBody, lower);
    if (place < 0) return undefined;
    at ??= place;
  }
  return { at };
}

/** The word as it was typed, or as JSON has it within a string. */
function indexOf(text: string, word: string): number {
  const place = text.indexOf(word);
  return place < 0 ? text.indexOf(JSON.stringify(word).slice(1, -1)) : place;
}

const BEFORE = 30;
const AFTER = 90;

/** A line of the text around a place. */
export function excerptAt(text: string, at: number): string {
  const from = Math.max(0, at - BEFORE);
  const part = text.slice(from, at + AFTER).replaceAll(/\s+/gu, " ");
  return `${from > 0 ? "…" : ""}${part.toWellFormed()}${at + AFTER < text.length ? "…" : ""}`;
}
