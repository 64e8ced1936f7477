/** The same with several databases, where writes to one may be lost between those to others. CI lets the Worker die there. */
import { isNightly } from "../../support/effort.ts";
import { failEveryCall } from "../../support/faults/every-fault.ts";
import { resendingScenarios } from "../../support/faults/sending-again.ts";
import { faults } from "../../support/faulty-runtime.ts";

failEveryCall(resendingScenarios, isNightly ? faults : ["crash"]);
