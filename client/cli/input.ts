/** What a command reads besides its arguments: files, standard input, JSON. */
import { readFileSync } from "node:fs";
import { UsageError } from "./command.ts";

/** The text of a file, or of standard input for `-`. @throws UsageError */
export function readText(file: string): string {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** @param what the text is, for the error. @throws UsageError */
export function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${what} is not JSON: ${(error as Error).message}`);
  }
}

/** The object in a JSON file. @throws UsageError */
export function readObject(file: string): Record<string, unknown> {
  const value = parseJson(readText(file), file);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new UsageError(`${file} is no JSON object`);
  return value as Record<string, unknown>;
}

/** Without the fields that are undefined. */
export function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}
