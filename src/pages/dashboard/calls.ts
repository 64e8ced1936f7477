/** How pages call services: as the visitor, with a refusal where one fails. */
import type { z } from "zod";
import type { RefusalKind, Result } from "../../core/result.ts";
import type { Caller } from "../../features/service.ts";
import { attempt, attemptWith } from "../ui/services.ts";
import { callerOnPage, type DashboardContext } from "./session.ts";

type Work<I, T, K extends RefusalKind> = (caller: Caller, input: I) => Promise<Result<T, K>>;

export function callService<I, T, K extends RefusalKind>(c: DashboardContext, work: Work<I, T, K>, input: I) {
  const caller = callerOnPage(c);
  return attempt(caller, () => work(caller, input));
}

/** With what a form has typed, once the schema accepts it. */
export function callWith<I, T, K extends RefusalKind>(
  c: DashboardContext,
  schema: z.ZodType<I>,
  typed: unknown,
  work: Work<I, T, K>,
) {
  const caller = callerOnPage(c);
  return attemptWith(caller, schema, typed, (input) => work(caller, input));
}
