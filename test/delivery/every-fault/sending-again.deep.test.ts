/** Every call failing in every way: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { resendingScenarios } from "../../support/faults/sending-again.ts";

failEveryCall(resendingScenarios);
