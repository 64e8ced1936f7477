/** Who is compared. Breakwater is last, as in every table. */
import { type PresetName, presetNames } from "../../src/core/retry/presets.ts";
import { breakwater } from "./breakwater/sender.ts";
import type { Contender } from "./sender.ts";
import { hookflare } from "./senders/hookflare.ts";
import { convoy, outpost, svix } from "./senders/peers.ts";
import { fixed, immediate, presetAlone, withoutJitter } from "./senders/policies.ts";

export const ourselves: Contender = { name: "Breakwater", model: false, start: breakwater };

export const contenders: readonly Contender[] = [
  immediate,
  fixed,
  withoutJitter,
  presetAlone("textbook"),
  presetAlone("gethook"),
  presetAlone("progressive"),
  presetAlone("storm-safe"),
  presetAlone("capped"),
  svix,
  outpost,
  convoy,
  hookflare,
  ourselves,
];

/** The presets behind Breakwater's gate, which is how they are used: what is left for the schedule to decide. */
export const behindTheGate: readonly Contender[] = presetNames.map((preset: PresetName) => ({
  name: preset,
  model: false,
  start: (context) =>
    breakwater({ ...context, settings: { ...context.settings, retry: JSON.stringify({ preset }) } }),
}));
