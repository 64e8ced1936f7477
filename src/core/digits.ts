/**
 * Whole numbers as short texts: five bits to a character, lowest first; the sixth bit says that more follow. Without bit
 * operations, which are limited to 32 bits: times and event numbers need more.
 */
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MORE = 32;

/** By character code. */
const VALUES = Uint8Array.from({ length: 128 }, (_, code) => DIGITS.indexOf(String.fromCharCode(code)));

/** @param number whole, not negative */
export function digitsOf(number: number): string {
  const low = number % MORE;
  const rest = Math.floor(number / MORE);
  return rest > 0 ? `${DIGITS[low + MORE]}${digitsOf(rest)}` : `${DIGITS[low]}`;
}

/** The number that begins at `from`, and where it ends. */
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
