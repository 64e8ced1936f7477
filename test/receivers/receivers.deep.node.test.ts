/** The receivers of docs/receivers against live deliveries, and the conformance suite. */

import { describeCertification } from "./certification.ts";
import { compiled, interpreted } from "./languages.ts";
import { describeReceiver } from "./live-deliveries.ts";

for (const language of [...interpreted, ...compiled]) {
  await describeReceiver(language);
  await describeCertification(language);
}
