/**
 * Whole numbers as short texts that can follow each other: five bits to a character, the lowest first, the sixth bit
 * saying that more follow. Not by bit operations, which know 32 bits: times and the numbers of deliveries need more.
 */
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MORE = 32;

const VALUES = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUES[DIGITS.charCodeAt(value)] = value;

/** @param number whole, not negative */
export function digitsOf(number: number): string {
  const low = number % MORE;
  const rest = Math.floor(number / MORE);
  return rest > 0 ? `${DIGITS[low + MORE]}${digitsOf(rest)}` : `${DIGITS[low]}`;
}

/** The number that begins there, and where the next thing begins. */
export function numberAt(text: string, from: number): readonly [number: number, end: number] {
  let number = 0;
  let scale = 1;
  for (let i = from; i < text.length; i++) {
    const digit = VALUES[text.charCodeAt(i)] ?? 0;
    number += (digit % MORE) * scale;
    scale *= MORE;
    if (digit < MORE) return [number, i + 1];
  }
  return [number, text.length];
}
