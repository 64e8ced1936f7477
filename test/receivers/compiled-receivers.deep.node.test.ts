/** The receivers of docs/receivers that are compiled first, against live deliveries. */

import { describeCertification } from "./certification.ts";
import { compiled } from "./languages.ts";
import { describeReceiver } from "./live-deliveries.ts";

for (const language of compiled) {
  await describeReceiver(language);
  await describeCertification(language);
}
