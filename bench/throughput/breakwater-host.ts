/** The process that Breakwater runs in; told a file, it runs that one as the Worker, with the variables it is told. */
import { startBreakwater } from "../../test/support/breakwater-runtime.ts";
import { serve } from "../../test/support/runtime.ts";
import { KEY } from "./contender.ts";
import { givenArgs } from "./processes.ts";

const [main, given] = givenArgs<[main?: string, vars?: Record<string, string>]>();

const vars = { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true", ...given };
serve(await startBreakwater({ vars, ...(main !== undefined && { main }) }));
