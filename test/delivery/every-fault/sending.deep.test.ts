/** Every call failing in every way: see support/faults/every-fault.ts. */
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { sendingScenarios } from "../../support/faults/sending.ts";

failEveryCall(sendingScenarios);
