/**
 * A JSON column that survives its editors: what a person has changed by hand into something that is no JSON
 * reads as `fallback`, and never makes an error of a request that only wanted to show the row. That it
 * is JSON says nothing of its shape: whoever reads it has to look.
 */
import { customType } from "drizzle-orm/sqlite-core";

export function jsonText<T>(fallback: T) {
  return customType<{ data: T; driverData: string }>({
    dataType: () => "text",
    toDriver: (value) => JSON.stringify(value),
    fromDriver: (stored) => parsedOr(stored, fallback),
  });
}

function parsedOr<T>(stored: unknown, fallback: T): T {
  try {
    return JSON.parse(String(stored));
  } catch {
    return fallback;
  }
}
