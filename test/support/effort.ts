/**
 * How much exploring tests explore. CI always makes the same, moderate number of runs; `npm run test:nightly` makes
 * many more, from a new seed, which it prints.
 */
import fc from "fast-check";
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** 0 in CI. */
    nightlySeed: number;
  }
}

const CI_SEED = 1;

const nightlySeed = inject("nightlySeed");

export const isNightly = nightlySeed !== 0;

/** The number of runs of a property. */
export function runs(inCi: number, everyNight: number): number {
  return isNightly ? everyNight : inCi;
}

/** The seed of a property. In CI it is another one where its histories are known to be rich. */
export function propertySeed(inCi = CI_SEED): number {
  return isNightly ? nightlySeed : inCi;
}

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: propertySeed() });
