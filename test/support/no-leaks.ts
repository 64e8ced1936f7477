/** Fails a test of the Worker if it logged or answered a secret. Captures the console from the beginning. */
import { afterEach, expect } from "vitest";
import { captureConsole, takeLeaks } from "./secret-leaks.ts";

captureConsole();

afterEach(() => {
  expect(takeLeaks()).toEqual([]);
});
