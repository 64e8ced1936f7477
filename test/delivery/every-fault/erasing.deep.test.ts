/** Every call failing in every way: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { erasingScenarios } from "../../support/faults/jobs.ts";

failEveryCall(erasingScenarios);
