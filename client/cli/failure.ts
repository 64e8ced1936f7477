/** Failures: their texts and exit codes. */
import type { Problem } from "../src/breakwater.ts";
import { ProblemError } from "../src/breakwater.ts";
import { CommandLineError, EXIT } from "./command.ts";
import { NotSignedIn } from "./profiles.ts";

export function exitCodeOf(status: number): number {
  if (status === 401 || status === 403) return EXIT.unauthorized;
  if (status === 404) return EXIT.notFound;
  if (status === 409) return EXIT.conflict;
  if (status === 429 || status >= 500) return EXIT.unavailable;
  return EXIT.invalid;
}

type Failure = Readonly<{ code: number; text: string; problem?: Problem }>;

/** A failure that a user can do something about; undefined for a mistake in this program. */
export function failureOf(error: unknown): Failure | undefined {
  if (error instanceof CommandLineError) return { code: EXIT.usage, text: error.message };
  if (error instanceof NotSignedIn) return { code: EXIT.unauthorized, text: error.message };
  if (error instanceof ProblemError) {
    const { problem } = error;
    return { code: exitCodeOf(problem.status), text: problemText(problem), problem };
  }
  // How fetch fails without a response, in Node.
  if (error instanceof TypeError && error.message === "fetch failed") {
    const { cause } = error;
    return {
      code: EXIT.unavailable,
      text: `The deployment cannot be reached: ${(cause as Error | undefined)?.message}`,
    };
  }
  return undefined;
}

function problemText({ detail, errors = [] }: Problem): string {
  const fields = errors.map(
    ({ line, field, fault, expected }) =>
      `${line === undefined ? "" : `line ${line}: `}${field} ${fault}; expected ${expected}`,
  );
  // The detail already contains the first error if it is the only one.
  return [detail, ...fields.filter((text) => !detail.includes(text)).map((text) => `  ${text}`)].join("\n");
}
