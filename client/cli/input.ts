/** The input of commands apart from their arguments: files, standard input, JSON. */
import { readFileSync } from "node:fs";
import { CommandLineError } from "./command.ts";

/** The text of a file, or of standard input for `-`. @throws CommandLineError */
export function readText(file: string): string {
  return readBytes(file).toString();
}

/** @throws CommandLineError */
export function readBytes(file: string): Buffer {
  try {
    return readFileSync(file === "-" ? 0 : file);
  } catch (error) {
    throw new CommandLineError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** @param what the text is, for the error. @throws CommandLineError */
export function jsonFrom(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CommandLineError(`${what} is not JSON: ${(error as Error).message}`);
  }
}

/** The object in a JSON file. @throws CommandLineError */
export function readObject(file: string): Record<string, unknown> {
  const value = jsonFrom(readText(file), file);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new CommandLineError(`${file} is not a JSON object`);
  return value as Record<string, unknown>;
}

/** The parameters of a path with one id. */
export const byId = (id: string) => ({ params: { path: { id } } });

/** Without the fields that are undefined. */
export function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}
