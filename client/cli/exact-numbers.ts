/**
 * Numbers with the digits that they were written with, also in Node 20, which has no JSON.rawJSON: a number that JavaScript
 * would write differently is a marked string until it is printed.
 */

/** No text of others contains it. */
const MARK = `number-${crypto.randomUUID()}:`;
const STRINGS_AND_NUMBERS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const MARKED = new RegExp(`"?${MARK}(-?\\d[\\d.eE+-]*)"?`, "g");

export function parsedWithDigits(json: string): unknown {
  return JSON.parse(
    json.replace(STRINGS_AND_NUMBERS, (token) =>
      token.startsWith('"') || String(Number(token)) === token ? token : `"${MARK}${token}"`,
    ),
  );
}

/** The text with its marked strings as the numbers that they stand for. */
export function withDigits(text: string): string {
  return text.replace(MARKED, "$1");
}
