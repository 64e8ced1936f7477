/** All checks, in the order in which they run. */
import type { Check } from "./check.ts";
import { billed } from "./checks/billed.ts";
import { hanging, slow } from "./checks/connections.ts";
import { batch, idempotency, latency, reach, signed } from "./checks/delivery.ts";
import { health, heartbeat, migrations, strangers } from "./checks/deployment.ts";
import { dropped } from "./checks/dropped.ts";
import {
  badCertificate,
  closedPort,
  deadOrigin,
  ipAddress,
  missingName,
  noAnswer,
  ownHost,
} from "./checks/failures.ts";
import { functions } from "./checks/functions.ts";
import { soak } from "./checks/soak.ts";
import { circuit, concurrency, hold, retry } from "./checks/trouble.ts";

/**
 * Neighbouring checks run at the same time: first those that measure when something arrives, later those that make
 * load. A batch that takes long would hold back the retries of messages in it.
 */
export const checks: readonly Check[] = [
  ...[health, migrations, reach, signed, latency],
  ...[heartbeat, idempotency, retry, hold, circuit, slow],
  ...[missingName, closedPort, badCertificate, deadOrigin, noAnswer, ownHost, ipAddress, strangers],
  hanging,
  ...[batch, concurrency, functions],
  ...[billed, dropped, soak],
];
