/** Every call failing in every way: see support/every-fault.ts. */
import { failEveryCall } from "../../support/every-fault.ts";
import { storiesOfSending } from "../../support/stories/sending.ts";

failEveryCall(storiesOfSending);
