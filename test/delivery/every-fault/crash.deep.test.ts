/** Every call of the delivery path failing with the Worker dying right after it: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { faultScenarios } from "../../support/faults/scenarios.ts";

failEveryCall(faultScenarios, ["crash"]);
