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
      token.startsWith('"') ? token : JSON.stringify(numberWithDigits(token)),
    ),
  );
}

/** @param token a number as JSON spells it */
function numberWithDigits(token: string): number | string {
  const number = Number(token);
  return String(number) === token ? number : `${MARK}${token}`;
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/** The number that YAML spells so, with its digits if JSON spells it in this way but for a plus and leading zeros. */
export function yamlNumber(value: number, source: string): number | string {
  const spelled = source.replace(/^\+/, "").replace(/^(-?)0+(?=\d)/, "$1");
  return JSON_NUMBER.test(spelled) ? numberWithDigits(spelled) : value;
}

/** The text with its marked strings as the numbers that they stand for. */
export function withDigits(text: string): string {
  return text.replace(MARKED, "$1");
}
