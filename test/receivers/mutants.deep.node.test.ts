/** The receivers of docs/receivers, each without one of its rules, before the conformance suite. */
import { describeMutants } from "./certification.ts";
import { compiled, interpreted, workers } from "./languages.ts";

for (const language of interpreted) if (language !== workers) await describeMutants(language);

const built = [workers, ...compiled];
for (const [nth, language] of built.entries()) await describeMutants(language, { nth, of: built.length });
