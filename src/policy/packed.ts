/**
 * Sets of deliveries as short texts. A busy gate carries tens of thousands of them through every call, and rarely
 * looks for one: each takes one character where they are close together, as what drains lease side by side is.
 *
 * The numbers are sorted, and each is written as its distance from the one before, five bits to a character, the
 * sixth bit saying that more follow.
 */
export type Packed = string;

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUE = new Map([...DIGITS].map((digit, value) => [digit.charCodeAt(0), value]));
const MORE = 32;

/** @param numbers whole, not negative, in any order */
export function packed(numbers: readonly number[]): Packed {
  let text = "";
  let last = 0;
  for (const number of numbers.toSorted((a, b) => a - b)) {
    text += digitsOf(number - last);
    last = number;
  }
  return text;
}

/** In ascending order. */
export function unpacked(text: Packed): number[] {
  const numbers: number[] = [];
  let last = 0;
  let distance = 0;
  let scale = 1;
  for (let i = 0; i < text.length; i++) {
    const digit = VALUE.get(text.charCodeAt(i)) ?? 0;
    distance += (digit % MORE) * scale;
    scale *= MORE;
    if (digit >= MORE) continue;
    last += distance;
    numbers.push(last);
    distance = 0;
    scale = 1;
  }
  return numbers;
}

/** Not by bit operations: a delivery's number may need more than 32 bits. */
function digitsOf(distance: number): string {
  const low = distance % MORE;
  const rest = Math.floor(distance / MORE);
  return rest > 0 ? `${DIGITS[low + MORE]}${digitsOf(rest)}` : `${DIGITS[low]}`;
}
