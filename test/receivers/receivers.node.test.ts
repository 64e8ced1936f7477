/** The receivers of docs/receivers that need no compiler, against live deliveries. */

import { describeCertification } from "./certification.ts";
import { interpreted } from "./languages.ts";
import { describeReceiver } from "./live-deliveries.ts";

for (const language of interpreted) {
  await describeReceiver(language);
  await describeCertification(language);
}
