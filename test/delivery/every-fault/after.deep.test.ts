/** Every call of the delivery path failing after it did its work: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { faultScenarios } from "../../support/faults/scenarios.ts";

failEveryCall(faultScenarios, ["after"]);
