/** Colour, where it can be seen and is wanted: not in a pipe, not under NO_COLOR. */
import { styleText } from "node:util";

export type Colour = "none" | "bold" | "dim" | "green" | "yellow" | "red" | "magenta" | "cyan";

export function paint(text: string, colour: Colour): string {
  if (colour === "none" || text === "") return text;
  return styleText(colour, text, { stream: process.stdout });
}
