/** A soak of half a minute; `npm run soak` is the long version. */
import { expect, test } from "vitest";
import { skipped } from "../support/skipped.ts";
import { soak } from "./soak/run.ts";
import { FORMER, hasCommit } from "./versions.ts";

const WHAT = "keeps every promise under load, through a kill and a deployment to the former version and back";

if (!hasCommit(FORMER))
  skipped(WHAT, `the clone is shallow and has no commit ${FORMER} to deploy in between`);
else
  test(WHAT, async () => {
    const { counts, findings, kills, deploys } = await soak({
      minutes: 0.6,
      seed: 7,
      rate: 20,
      size: { tenants: 40, databases: 3, isolates: 2 },
    });
    expect(findings.flatMap(({ check, seen }) => seen.map((text) => `${check}: ${text}`))).toEqual([]);
    expect({ kills, deploys }).toEqual({ kills: 1, deploys: 1 });
    expect(counts.accepted).toBeGreaterThan(100);
    expect(counts.failedRequests).toBeGreaterThan(0);
  });
