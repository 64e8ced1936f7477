import type { Exchange } from "../../src/core/retry/classify.ts";

/** The ways in which an exchange can end without a response. */
export const failureKinds = [
  "timeout",
  "connection_lost",
  "refused",
  "dns",
  "network",
] as const satisfies readonly Exchange["kind"][];
