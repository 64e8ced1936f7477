/**
 * When a soak kills the stack and deploys: pure, from its length and seed. Kills are minutes apart, because several in a
 * minute are a crash loop for the gates, which then serve destinations a few deliveries at a time.
 */
import { seededRandom } from "../../../src/core/seeded-random.ts";

/** `at` is ms after the load has begun. */
export type Step = Readonly<{ at: number }> &
  (
    | Readonly<{ do: "kill" }>
    | Readonly<{
        do: "deploy";
        /** The version whose code the Durable Objects run. */
        objects: "former" | "current";
        /** The part that the current version handles. */
        share: number;
        /** The last step of a round trip between versions. */
        isBack?: true;
      }>
  );

/** To the version before and back, through both side by side. */
const DEPLOYMENT = [
  { objects: "current", share: 0.5 },
  { objects: "former", share: 0.5 },
  { objects: "former", share: 0 },
  { objects: "former", share: 0.5 },
  { objects: "current", share: 0.5 },
  { objects: "current", share: 1, isBack: true },
] as const;

/** After so much of the time nothing is killed or deployed any more, so that growth of memory shows. */
const TROUBLED = 0.7;

const clamp = (least: number, value: number, most: number) => Math.max(least, Math.min(most, value));

export function timeline(totalMs: number, seed: number): Step[] {
  const random = seededRandom(seed);
  const stepMs = clamp(4_000, totalMs / 90, 25_000);
  const starts = totalMs < 20 * 60_000 ? [0.3] : [0.12, 0.33, 0.55];
  const deployments = starts.map((part) => ({
    from: part * totalMs,
    to: part * totalMs + DEPLOYMENT.length * stepMs,
  }));
  const deploys = deployments.flatMap(({ from }) =>
    DEPLOYMENT.map((step, i): Step => ({ at: from + i * stepMs, do: "deploy", ...step })),
  );
  const spacingMs = clamp(45_000, totalMs / 6, 180_000);
  const kills: Step[] = [];
  for (
    let at = Math.min(spacingMs, totalMs / 6);
    at < TROUBLED * totalMs;
    at += spacingMs * (0.7 + 0.6 * random())
  )
    // While versions are side by side they are restarted often enough.
    if (!deployments.some(({ from, to }) => at > from - stepMs && at < to)) kills.push({ at, do: "kill" });
  return [...deploys, ...kills].sort((a, b) => a.at - b.at);
}
