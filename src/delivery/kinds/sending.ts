/**
 * Delivery to a destination's kind: the scheme of its stored target, so no column can disagree with it. Kinds other
 * than `https` are loaded with the first delivery to one.
 */
import { https } from "./https.ts";
import type { Kind } from "./kind.ts";

const kinds = {
  https: async () => https,
  queue: async () => (await import("./queue.ts")).queue,
  service: async () => (await import("./service-binding.ts")).serviceBinding,
  poll: async () => (await import("./poll.ts")).poll,
} as const satisfies Readonly<Record<string, () => Promise<Kind>>>;

export type DestinationKind = keyof typeof kinds;

export function isDestinationKind(name: string): name is DestinationKind {
  return Object.hasOwn(kinds, name);
}

/** The kind of a stored target. A target without another kind's scheme is a URL, or refused as one. */
export function kindNameOf(target: string): DestinationKind {
  const scheme = target.slice(0, Math.max(0, target.indexOf(":")));
  return isDestinationKind(scheme) ? scheme : "https";
}

/** Whether nothing is sent to the destination: consumers fetch. */
export function isPolled({ url }: Readonly<{ url: string }>): boolean {
  return kindNameOf(url) === "poll";
}

/** How to deliver to a stored target. */
export function kindOf({ url }: Readonly<{ url: string }>): Promise<Kind> {
  return kinds[kindNameOf(url)]();
}
