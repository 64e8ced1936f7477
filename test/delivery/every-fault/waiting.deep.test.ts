/** Every call failing in every way: see support/every-fault.ts. */
import { failEveryCall } from "../../support/every-fault.ts";
import { storiesOfWaiting } from "../../support/stories/waiting.ts";

failEveryCall(storiesOfWaiting);
