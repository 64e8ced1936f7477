/** The senders that are compared. Breakwater is last, as in every table. */
import { type RetrySpec, resolveRetry } from "../../src/core/retry/policy.ts";
import { presetNames } from "../../src/core/retry/presets.ts";
import { breakwater } from "./breakwater/sender.ts";
import type { Contender } from "./sender.ts";
import { hookflare } from "./senders/hookflare.ts";
import { convoy, outpost, svix } from "./senders/peers.ts";
import { fixed, immediate, presetAlone, withoutJitter } from "./senders/policies.ts";

export const ourselves = behindTheGate("Breakwater", {});

export const contenders: readonly Contender[] = [
  immediate,
  fixed,
  withoutJitter,
  presetAlone("textbook"),
  presetAlone("gethook"),
  presetAlone("progressive"),
  presetAlone("exponential"),
  presetAlone("storm-safe"),
  presetAlone("capped"),
  svix,
  outpost,
  convoy,
  hookflare,
  ourselves,
];

/** The presets behind Breakwater's gate, which is how they are used: these show what the schedule still decides. */
export const presetsBehindTheGate: readonly Contender[] = presetNames.map((preset) =>
  behindTheGate(preset, { preset }),
);

/** Breakwater with this retry policy. Equal policies are the same contender, whatever their names. */
export function behindTheGate(name: string, retry: RetrySpec): Contender {
  return {
    name,
    id: `Breakwater ${JSON.stringify(resolveRetry(retry))}`,
    model: false,
    start: (context) =>
      breakwater({ ...context, settings: { ...context.settings, retry: JSON.stringify(retry) } }),
  };
}
