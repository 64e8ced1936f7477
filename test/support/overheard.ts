/** After every test of the Worker: no secret has been said. The console is listened to from the beginning. */
import { afterEach, expect } from "vitest";
import { overhear, takeLeaks } from "./secrecy.ts";

for (const way of ["log", "info", "warn", "error", "debug"] as const) {
  const say = console[way];
  console[way] = (...alertState: unknown[]) => {
    overhear("The console", alertState.map(String).join(" "));
    say(...alertState);
  };
}

afterEach(() => {
  expect(takeLeaks()).toEqual([]);
});
