/** Objects whose keys callers choose. */
import { z } from "zod";
import { numberOf } from "./json-value.ts";

const EXPECTED = "expected another name";

/**
 * Like `z.record`, which leaves out a key `__proto__` without an error: a header, a condition or a parameter of that name
 * would be accepted and never be in effect. Here it is refused, as is a number as it was written, which is an object to zod.
 */
export function recordOf<V extends z.ZodType>(
  key: z.ZodString,
  value: V,
  params?: Readonly<{ error: string }>,
) {
  return z.preprocess(
    (given, ctx) => {
      if (typeof given === "object" && given !== null && Object.hasOwn(given, "__proto__"))
        ctx.issues.push({
          code: "invalid_key",
          origin: "record",
          path: ["__proto__"],
          issues: [{ code: "custom", message: EXPECTED, path: [], input: "__proto__" }],
          input: given,
        });
      return numberOf(given) ?? given;
    },
    z.record(key, value, params),
  );
}
