/** When a soak kills and deploys. */
import { describe, expect, test } from "vitest";
import { timeline } from "./timeline.ts";

describe.each([0.6, 10, 60])("in %d minutes", (minutes) => {
  const totalMs = minutes * 60_000;
  const steps = timeline(totalMs, 1);

  test("the stack is killed, but not in the last part", () => {
    expect(steps.some((step) => step.do === "kill")).toBe(true);
    expect(steps.filter(({ at }) => at < 0 || at > 0.95 * totalMs)).toEqual([]);
    expect(steps).toEqual(steps.toSorted((a, b) => a.at - b.at));
  });

  test("every deployment of the former version is reverted before anything else happens", () => {
    const deploys = steps.filter((step) => step.do === "deploy");
    expect(deploys.length % 6).toBe(0);
    for (let i = 0; i < deploys.length; i += 6)
      expect(deploys.slice(i, i + 6).map(({ objects, share }) => [objects, share])).toEqual([
        ["current", 0.5],
        ["former", 0.5],
        ["former", 0],
        ["former", 0.5],
        ["current", 0.5],
        ["current", 1],
      ]);
    const doing = steps.map((step) => step.do).join(" ");
    expect(
      doing
        .replaceAll(/(?:deploy ?){6}/g, "")
        .replaceAll("kill", "")
        .trim(),
    ).toBe("");
  });
});
