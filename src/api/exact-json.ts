/**
 * JSON whose numbers survive. A JavaScript number cannot hold 12345678901234567890, 1e400 or the cents of 100.00,
 * and a webhook service that rewrites a customer's ids is broken; so where a number would change, its source text is
 * kept and stringified again as it was (JSON.rawJSON, ECMAScript's "JSON.parse source text access").
 */
declare global {
  interface JSON {
    rawJSON(text: string): unknown;
    isRawJSON(value: unknown): boolean;
  }
}

/**
 * Sixteen digits, an exponent, a negative zero, a fraction that ends in a zero or begins with six: without one of
 * these JavaScript writes a number as it was written.
 */
const SUSPICIOUS = /[\d.]{16}|\d[eE]|-0|\.0{6}|\.\d*0(?!\d)/;

/** Parses JSON so that `JSON.stringify` gives every number back as it was written. Throws as JSON.parse does. */
export function parseExactly(text: string): unknown {
  return SUSPICIOUS.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text);
}

export function isRawJson(value: unknown): boolean {
  return JSON.isRawJSON(value);
}

function keepNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || context?.source === undefined) return value;
  return String(value) === context.source ? value : JSON.rawJSON(context.source);
}

/** Whether lists and objects are nested more than `max` deep: recursion over such a value would end badly. */
export function isDeeperThan(text: string, max: number): boolean {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quoted && char === "\\") i++;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && (char === "[" || char === "{") && ++depth > max) return true;
    else if (!quoted && (char === "]" || char === "}")) depth--;
  }
  return false;
}
