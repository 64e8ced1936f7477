/** The real local R2, initially empty, whose calls a test can count and break. */
import { env } from "cloudflare:workers";
import { exchangeIn } from "../../src/core/archive.ts";
import { counted } from "./meter.ts";

type Method = "put" | "get" | "list" | "delete";

export type TestBucket = Readonly<{
  bucket: R2Bucket;
  /** Sets a hook that runs before each call: it may throw, or never end. */
  before: (hook: (method: Method) => Promise<void> | void) => void;
  /** The number of calls that have begun. */
  called: (method: Method) => number;
  /** The most calls that were under way at the same time. */
  mostOpen: () => number;
  /** Every object's name and text. */
  stored: () => Promise<Readonly<{ name: string; text: string }>[]>;
}>;

export const realBucket = (env as unknown as { TEST_BODIES: R2Bucket }).TEST_BODIES;

export async function emptyBucket(): Promise<void> {
  const { objects } = await realBucket.list();
  await realBucket.delete(objects.map(({ key }) => key));
}

export async function testBucket(): Promise<TestBucket> {
  await emptyBucket();
  let hook: (method: Method) => Promise<void> | void = () => {};
  const calls: Method[] = [];
  let [open, mostOpen] = [0, 0];

  const calling =
    (method: Method) =>
    async (...args: unknown[]) => {
      calls.push(method);
      mostOpen = Math.max(mostOpen, ++open);
      try {
        await hook(method);
        return await counted(() => (realBucket[method] as (...args: unknown[]) => Promise<unknown>)(...args));
      } finally {
        open -= 1;
      }
    };

  return {
    bucket: {
      put: calling("put"),
      get: calling("get"),
      list: calling("list"),
      delete: calling("delete"),
    } as unknown as R2Bucket,
    before: (next) => {
      hook = next;
    },
    called: (method) => calls.filter((one) => one === method).length,
    mostOpen: () => mostOpen,
    stored: storedObjects,
  };
}

export async function storedObjects(): Promise<Readonly<{ name: string; text: string }>[]> {
  const { objects } = await realBucket.list();
  return Promise.all(
    objects.map(async ({ key }) => ({ name: key, text: (await (await realBucket.get(key))?.text()) ?? "" })),
  );
}

/** The exchange in an object, of any delivery. */
export function exchangeOf({ text }: Readonly<{ text: string }>) {
  const { tenant, destination, at } = JSON.parse(text);
  const exchange = exchangeIn(text, { event: 0, destination, at }, tenant);
  if (exchange === undefined) throw new Error(`No exchange: ${text.slice(0, 200)}`);
  return exchange;
}
