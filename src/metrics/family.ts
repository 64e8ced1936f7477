/** Families of Breakwater's own: the name's prefix is put here. */
import type { Family, Sample } from "./exposition.ts";

const family =
  (type: Family["type"]) =>
  (name: string, help: string, samples: readonly Sample[]): Family => ({
    name: `breakwater_${name}`,
    help,
    type,
    samples,
  });

export const counter = family("counter");
export const gauge = family("gauge");
export const histogram = family("histogram");
