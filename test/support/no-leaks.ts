/** Fails a test of the Worker when a secret was logged or answered. Captures the console from the beginning. */
import { afterEach, expect } from "vitest";
import { captureConsole, takeLeaks } from "./secret-leaks.ts";

captureConsole();

afterEach(() => {
  expect(takeLeaks()).toEqual([]);
});
