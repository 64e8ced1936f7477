/** Every call failing in every way: see support/every-fault.ts. */
import { failEveryCall } from "../../support/every-fault.ts";
import { storiesOfSendingAgain } from "../../support/stories/sending-again.ts";

failEveryCall(storiesOfSendingAgain);
