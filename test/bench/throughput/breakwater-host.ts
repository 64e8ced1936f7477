/** The process that Breakwater runs in; told a file, it runs that one as the Worker. */
import { startBreakwater } from "../../support/breakwater-runtime.ts";
import { serve } from "../../support/runtime.ts";
import { KEY } from "./contender.ts";
import { givenArgs } from "./processes.ts";

const [main] = givenArgs<[main?: string]>();

const vars = { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" };
serve(await startBreakwater({ vars, ...(main !== undefined && { main }) }));
