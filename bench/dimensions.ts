/**
 * The part of `npm run bench:growth` that counts the cost of an event while isolates, tenants, keys, destinations,
 * databases, intake shards or idle time grow. growth.ts starts it with the names of dimensions. With `--save`,
 * dimensions that are not run keep their saved figures.
 */
import { growthWorld, type Size, USUAL } from "./dimensions/world.ts";
import { DIMENSIONS, dimensionTable } from "./growth/dimensions.ts";
import { benchArgs, type DimensionResults, type DimensionStep, save, saved } from "./results.ts";

type Dimensions = DimensionResults["dimensions"];

/** Rounds of twenty events, a second apart. As many uncounted rounds precede them. */
const ROUNDS = 10;

const sizesAt: Readonly<Record<string, (size: number) => Partial<Size>>> = {
  isolates: (isolates) => ({ isolates }),
  tenants: (tenants) => ({ tenants, destinations: Math.max(USUAL.destinations, tenants) }),
  keys: (keys) => ({ keys }),
  destinations: (destinations) => ({ destinations }),
  databases: (databases) => ({ databases }),
  shards: (shards) => ({ shards }),
  idle: (minutes) => ({ idleMs: minutes * 60_000 }),
};

async function measured(id: string): Promise<Dimensions[number]> {
  const { what = "", sizes = [] } = DIMENSIONS[id] ?? {};
  const steps: DimensionStep[] = [];
  for (const size of sizes) {
    const world = await growthWorld({ ...USUAL, ...sizesAt[id]?.(size) });
    try {
      steps.push({ size, ...(await world.measure(ROUNDS)) });
      console.log(`${id} ${size.toLocaleString("en")} done`);
    } finally {
      await world.close();
    }
  }
  return { id, what, steps };
}

/** Adds the saved results of the dimensions that were not run. */
function withSaved(run: Dimensions): Dimensions {
  const before = saved("dimensions").dimensions;
  return Object.keys(DIMENSIONS).flatMap((name) => {
    const isNamed = ({ id }: Dimensions[number]) => id === name;
    return run.find(isNamed) ?? before.find(isNamed) ?? [];
  });
}

const { words, save: isSaved } = benchArgs();
const run: Dimensions[number][] = [];
for (const name of words) {
  run.push(await measured(name));
  // Saves after each dimension, so that an interruption loses at most one.
  if (isSaved) save("dimensions", { dimensions: withSaved(run) }, []);
}
console.log(dimensionTable({ dimensions: run }));
process.exit(0);
