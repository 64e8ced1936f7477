/** An upgrade and a rollback in short phases; `npm run test:upgrade` is the long version. */
import { expect, test } from "vitest";
import { surviveUpgrade } from "./survive-upgrade.ts";
import { FORMER, hasCommit } from "./versions.ts";

const isThere = hasCommit(FORMER);
// Passing tests print nothing, and a skipped one does not say why.
if (!isThere)
  process.stderr.write(`Skipped: the clone is shallow and has no commit ${FORMER} to upgrade from.\n`);

test.runIf(isThere)(
  "loses no accepted event, and repeats none without cause, while versions run side by side and go back",
  async () => {
    const report = await surviveUpgrade({ from: FORMER, phaseMs: 4_000, seed: 7 });
    expect(report.accepted).toBeGreaterThan(100);
    expect(report.failed).toBeGreaterThan(0);
    expect(report.misreadings).toEqual([]);
    expect({ lost: report.lost, unexplained: report.unexplained }).toEqual({ lost: 0, unexplained: 0 });
  },
);
