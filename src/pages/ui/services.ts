/** Calls of services by pages: with the input of a form, and with a refusal instead of an error page if one fails. */
import type { z } from "zod";
import { checked } from "../../core/field-errors.ts";
import {
  conflict,
  type FieldError,
  invalidFields,
  mapOk,
  ok,
  type RefusalKind,
  type Refused,
  type Result,
} from "../../core/result.ts";
import { createDestination, updateDestination } from "../../features/destinations/service.ts";
import { readChange, readCreation } from "../../features/destinations/validate.ts";
import type { Caller } from "../../features/service.ts";
import { unexpectedError } from "../../http/problems.ts";
import { faultOf } from "../../log.ts";
import { type Form, textIn } from "./format.ts";

type Trouble = "internal" | "unavailable";

/** A service, or a function that calls one. */
export type Work<I, T, K extends RefusalKind> = (caller: Caller, input: I) => Promise<Result<T, K>>;

/** Runs a service. Internal errors are logged, and become a refusal, so that a form keeps its input. */
export async function attempt<I, T, K extends RefusalKind>(
  caller: Caller,
  work: Work<I, T, K>,
  input: I,
): Promise<Result<T, K | Trouble>> {
  try {
    return await work(caller, input);
  } catch (error) {
    caller.services.log({ what: "page_failed", fault: faultOf(error) });
    return unexpectedError(error);
  }
}

/** Runs a service with the input of a form, once the schema accepts it. */
export async function attemptWith<I, T, K extends RefusalKind>(
  caller: Caller,
  schema: z.ZodType<I>,
  typed: unknown,
  work: Work<I, T, K>,
): Promise<Result<T, K | Trouble | "invalid">> {
  return attemptRead(caller, readTyped(schema, typed), work);
}

/** Runs a service with an input that has been read from a form, unless it could not be read. */
export async function attemptRead<I, T, K extends RefusalKind>(
  caller: Caller,
  input: Result<I, "invalid">,
  work: Work<I, T, K>,
): Promise<Result<T, K | Trouble | "invalid">> {
  return input.kind === "ok" ? attempt(caller, work, input.value) : input;
}

type Typed = Readonly<{ input: Readonly<Record<string, unknown>>; requestUrl: string }>;

/**
 * Creates a destination from a form, unless that cannot be read.
 * @param typed `key`: of the form, so that one that is sent twice creates one
 */
export function addDestination(
  caller: Caller,
  { input, key, requestUrl }: Typed & Readonly<{ key: string | undefined }>,
) {
  const read = readCreation(caller.services, input, requestUrl);
  return attemptRead(caller, read, (_, destination) =>
    createDestination(caller, { destination, key, requestUrl }),
  );
}

/** Changes a destination by a form, unless that cannot be read. */
export function saveDestination(caller: Caller, { id, input, requestUrl }: Typed & Readonly<{ id: string }>) {
  const read = readChange(caller.services, input, requestUrl);
  return attemptRead(caller, read, (_, change) => updateDestination(caller, { id, change, requestUrl }));
}

/** A form's input as the schema has it, or its faults. */
export function readTyped<T>(schema: z.ZodType<T>, typed: unknown): Result<T, "invalid"> {
  const result = checked(schema, typed);
  return "data" in result ? ok(result.data) : invalidFields(result);
}

/**
 * The status of the page that shows a refusal: that of an internal error, or 422 for faults that a change of the form
 * can fix.
 */
export function statusOfRefused({ kind }: Pick<Refused, "kind">): 422 | 500 | 503 {
  return kind === "internal" ? 500 : kind === "unavailable" ? 503 : 422;
}

/** The refusal of a form that cannot be read, before a service sees it. */
export function unreadable(errors: readonly FieldError[]): Refused<"invalid"> {
  return { kind: "invalid", detail: "The form cannot be read", errors };
}

type Page = Readonly<{ after: string | undefined; limit: number }>;

/**
 * A page of a list, with what its pager needs.
 * @param read reads one row more than the page has
 * @param keyOf the place of a row, after which the next page begins
 */
export async function pageAfter<T, K extends RefusalKind>(
  after: string | undefined,
  size: number,
  read: (page: Page) => Promise<Result<readonly T[], K>>,
  keyOf: (row: T) => string,
) {
  return mapOk(await read({ after, limit: size + 1 }), (found) => {
    const rows = found.slice(0, size);
    const last = found.length > size ? rows.at(-1) : undefined;
    return { rows, isFirst: after === undefined, next: last && { after: keyOf(last) } };
  });
}

/** When the settings of a form were read, as it says; empty if it says nothing. */
export function readAtIn(typed: Form): string {
  return textIn(typed, "read_at") ?? "";
}

/**
 * The refusal of a form that was opened before somebody else changed what it is about, as its `read_at` says; undefined if
 * nobody has. A form without that time is refused too, because nothing says which settings it began with. The form is
 * shown again with the present time, so that it can be sent once more.
 */
export function changedMeanwhile(typed: Form, updatedAt: string | null, what: string): Refused | undefined {
  if (readAtIn(typed) === String(updatedAt)) return undefined;
  return conflict(
    `The ${what} was changed after you opened this form. Your input is below: check the ${what}, then save again to overwrite those changes`,
  );
}
