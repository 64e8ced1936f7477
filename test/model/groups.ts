/** All models of the model checker. */
import { brokenCommits, deepCommits, smallCommits } from "./commit-variants.ts";
import { brokenGates, deepGates, smallGates } from "./gate-variants.ts";
import { brokenGroups, deepGroups, smallGroups } from "./group-variants.ts";
import { brokenOrders, smallOrders } from "./order-variants.ts";
import { brokenRates, deepRates, smallRates } from "./rate-variants.ts";
import { brokenRecords, deepRecords, smallRecords } from "./record-variants.ts";
import type { Group } from "./report.ts";

export const groups: readonly Group[] = [
  { title: "The gate", small: smallGates, deep: deepGates, broken: brokenGates },
  { title: "The rate limit", small: smallRates, deep: deepRates, broken: brokenRates },
  { title: "What is recorded", small: smallRecords, deep: deepRecords, broken: brokenRecords },
  { title: "The commit", small: smallCommits, deep: deepCommits, broken: brokenCommits },
  { title: "A group of destinations", small: smallGroups, deep: deepGroups, broken: brokenGroups },
  { title: "Lines of ordered deliveries", small: smallOrders, deep: [], broken: brokenOrders },
];
