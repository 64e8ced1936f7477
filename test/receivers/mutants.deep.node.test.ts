/** The receivers of docs/receivers, each without one of its rules, before the conformance suite. */
import { describeMutants } from "./certification.ts";
import { compiled, interpreted } from "./languages.ts";

for (const language of [...interpreted, ...compiled]) await describeMutants(language);
