/** Makes foreign texts safe to print. */

const MOST = 300;

/** The text on one line of a terminal: at most 300 characters, and none that controls the terminal. */
export function printable(text: string): string {
  const shown = text.replaceAll(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]+/gu, "�");
  const characters = [...shown];
  return characters.length > MOST ? `${characters.slice(0, MOST).join("")}…` : shown;
}

/** `1 endpoint`, `2 endpoints`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
