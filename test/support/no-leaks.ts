/** Fails a test of the Worker when a secret was logged or answered. Captures the console from the beginning. */
import { afterEach, expect } from "vitest";
import { captureText, takeLeaks } from "./secret-leaks.ts";

for (const way of ["log", "info", "warn", "error", "debug"] as const) {
  const write = console[way];
  console[way] = (...args: unknown[]) => {
    captureText("The console", args.map(String).join(" "));
    write(...args);
  };
}

afterEach(() => {
  expect(takeLeaks()).toEqual([]);
});
