/** Every call of the delivery path failing before it did anything: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { faultScenarios } from "../../support/faults/scenarios.ts";

failEveryCall(faultScenarios, ["before"]);
