/** The series that /metrics exposes, with the values that their labels can have. */

import { defaultBreaker } from "../../src/core/limits.ts";
import { emptyCounters } from "../../src/core/metrics.ts";
import { familiesOf } from "../../src/features/stats/families.ts";
import type { Fleet } from "../../src/features/stats/fleet.ts";
import { gateFixture, noTraffic } from "../browser/fixture/gates.ts";

/** By series: its labels, and the values of each. Of ids one stands for all. */
export type Exposition = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

const figures = { view: gateFixture(noTraffic).view, ever: emptyCounters(0), windows: {} };

const seen: Fleet["seen"] = [
  {
    row: { id: "dst_00000000000000000000", status: "active" } as Fleet["seen"][number]["row"],
    depth: { waiting: 0, dead: 0, retrying: 0, held: 0 },
    figures,
  },
];

const fleet: Fleet = {
  seen,
  sampled: seen,
  total: 1,
  unreachable: 0,
};

const health: Parameters<typeof familiesOf>[1] = {
  system: {
    heartbeatAt: 0,
    oldestDueAt: 0,
    deduplicated: 0,
    keyed: 0,
    unreadable: 0,
    databases: [{ name: "DB", bytes: 0, headroomBytes: 0 }],
  },
  retryingForADay: 0,
  groups: [
    {
      ...{ name: "shared", max_concurrency: 1, rate_per_second: 1, rate_burst: 1, breaker: defaultBreaker },
      ...{ created_at: null, updated_at: null },
      state: {
        ...{ circuit: "closed", circuit_until: null, held_until: null },
        ...{ window: 1, in_flight: 0, waiting: 0, tenants: 0 },
      },
    },
  ],
  consumers: [
    {
      destination: { id: "dst_00000000000000000000" } as Fleet["seen"][number]["row"],
      consumer: {
        ...{ name: "billing", position: { late: 0, next: [] }, fetchedAt: 0, committedAt: 0 },
        ...{ pages: 0, returned: 0, late: 0, lateSince: null },
      },
      lagMs: 0,
      events: 0,
    },
  ],
  backlogs: (["deliveries", "drains", "upkeep"] as const).map((queue) => ({
    queue,
    messages: 0,
    oldestAt: 0,
  })),
};

export function exposition(): Exposition {
  const series = new Map<string, Map<string, Set<string>>>();
  for (const { name, samples } of familiesOf(fleet, health, 0)) {
    for (const { suffix = "", labels = {} } of samples) {
      const known = series.get(`${name}${suffix}`) ?? new Map<string, Set<string>>();
      series.set(`${name}${suffix}`, known);
      for (const [label, value] of Object.entries(labels))
        known.set(label, (known.get(label) ?? new Set()).add(value));
    }
  }
  return series;
}
