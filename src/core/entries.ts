/** The rules of a variable's entries, which semicolons separate, and the faults of invalid ones. */
export function rulesOfEntries<R extends object>(
  text: string,
  ruleOf: (entry: string) => R | Readonly<{ fault: string }>,
): Readonly<{ rules: readonly R[]; faults: readonly string[] }> {
  const entries = text.split(";").map((entry) => entry.trim());
  const parsed = entries.filter((entry) => entry !== "").map(ruleOf);
  return {
    rules: parsed.flatMap((one) => ("fault" in one ? [] : [one])),
    faults: parsed.flatMap((one) => ("fault" in one ? [one.fault] : [])),
  };
}
