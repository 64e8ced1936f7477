/** The scenarios of the group's model, and groups that are broken on purpose, each with one in which it shows. */

import { type GroupParts, type GroupScenario, groupModel, groupProduction } from "./group.ts";
import { type Checked, checked, type Variant } from "./report.ts";

/** There is only one slot. */
const single: GroupScenario = { maxConcurrency: 1, wanted: [[1, 1], [1]], faults: 1, delays: 0, ticks: 2 };
/** An eighth is left for a tenant without a block. */
const double: GroupScenario = { maxConcurrency: 2, wanted: [[2], [1]], faults: 1, delays: 1, ticks: 2 };
/** The second block of the first member serves several leases, which end one after the other. */
const wide: GroupScenario = {
  maxConcurrency: 8,
  wanted: [[2, 1, 1, 1, 1], [5]],
  faults: 0,
  delays: 0,
  ticks: 0,
};

export const smallGroups: readonly Checked[] = [
  checked("One at once, two members, one fault", () => groupModel(single)),
  checked("Two at once, two members, one fault, one delay", () => groupModel(double)),
  checked("Six at once, a block of several leases", () =>
    groupModel({ ...wide, maxConcurrency: 6, wanted: [[2, 1, 1, 1], [5]] }),
  ),
];

export const deepGroups: readonly Checked[] = [
  checked("One at once, two members, one fault, one delay", () => groupModel({ ...single, delays: 1 })),
  checked("Eight at once, a block of several leases", () => groupModel(wide)),
  checked("Two at once, two members, two faults", () => groupModel({ ...double, faults: 2, delays: 0 })),
];

function broken(name: string, scenario: GroupScenario, parts: Partial<GroupParts>): Variant {
  return checked(name, () => groupModel(scenario, { ...groupProduction, ...parts }));
}

export const brokenGroups: readonly Variant[] = [
  broken("A block goes out before it is stored", single, { groupMustBeStored: () => false }),
  broken(
    "A block that comes too late is used",
    { ...single, faults: 0, delays: 1 },
    {
      admit: (before, request, settings, now) => {
        const { answer } = request.group?.answered ?? {};
        if (answer?.kind !== "block") return groupProduction.admit(before, request, settings, now);
        const block = { ...answer.block, useBy: now + 1_000, leasesEndBy: now + 60_000 };
        const group = { name: "g", answered: { answer: { ...answer, at: now, block }, askedAt: now } };
        return groupProduction.admit(before, { ...request, group }, settings, now);
      },
    },
  ),
  broken(
    "A block counts no longer than leases are granted from it",
    { ...single, faults: 0, delays: 1 },
    {
      deal: (before, request, settings, now, random) => {
        const blocks = before.blocks.filter(({ expiresAt }) => expiresAt - request.leaseMs - 1_000 > now);
        return groupProduction.deal({ ...before, blocks }, request, settings, now, random);
      },
    },
  ),
  broken("A member gives back slots that it uses", wide, {
    settle: (before, request, settings, now, random) => {
      const made = groupProduction.settle(before, request, settings, now, random);
      const { over } = made;
      return over
        ? { ...made, over: { ...over, ends: over.ends.map((end) => ({ ...end, slots: 0 })) } }
        : made;
    },
  }),
];
