/** The process that Breakwater runs in. */
import { startBreakwater } from "../../support/breakwater-runtime.ts";
import { serve } from "../../support/runtime.ts";
import { KEY } from "./contender.ts";

serve(await startBreakwater({ vars: { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" } }));
