/** Every call failing in every way: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { waitingScenarios } from "../../support/faults/waiting.ts";

failEveryCall(waitingScenarios);
