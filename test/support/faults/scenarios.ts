import { erasingScenarios, requeueingScenarios } from "./jobs.ts";
import type { Scenario } from "./scenario.ts";
import { sendingScenarios } from "./sending.ts";
import { resendingScenarios } from "./sending-again.ts";
import { waitingScenarios } from "./waiting.ts";

/** Together they make every call that the delivery path can make. */
export const faultScenarios: readonly Scenario[] = [
  ...sendingScenarios,
  ...waitingScenarios,
  ...resendingScenarios,
  ...requeueingScenarios,
  ...erasingScenarios,
];
