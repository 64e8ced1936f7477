/** The process that Breakwater runs in. The arguments may name another file to run as the Worker, and variables. */
import { startBreakwater } from "../../test/support/breakwater-runtime.ts";
import { serve } from "../../test/support/runtime.ts";
import { KEY } from "./contender.ts";
import { givenArgs } from "./processes.ts";

const [main, given] = givenArgs<[main?: string, vars?: Record<string, string>]>();

const vars = { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true", ...given };
serve(await startBreakwater({ vars, ...(main !== undefined && { main }) }));
