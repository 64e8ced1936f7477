import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { playAll, type Run } from "./storm/runs.ts";

let place: string;
let played: string[];
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), "runs-"));
  played = [];
});
afterEach(() => rmSync(place, { recursive: true }));

function runNamed(name: string, fails = false): Run<string> {
  return {
    name,
    play: async () => {
      played.push(name);
      if (fails) throw new Error("Interrupted");
      return `result of ${name}`;
    },
  };
}

const play = (...runs: readonly Run<unknown>[]) => playAll(runs, { place, processes: 1, progress: () => {} });

describe("runs of the storm benchmark", () => {
  it("plays runs of the same name once, and reads the result by either", async () => {
    const [one, same, other] = [runNamed("a"), runNamed("a"), runNamed("b")];
    const read = await play(one, same, other);
    expect(played).toEqual(["a", "b"]);
    expect([read(one), read(same), read(other)]).toEqual(["result of a", "result of a", "result of b"]);
  });

  it("continues after an interruption with the runs that have no result", async () => {
    const [first, second] = [runNamed("a"), runNamed("b")];
    await expect(play(first, runNamed("b", true))).rejects.toThrow("Interrupted");
    const read = await play(first, second);
    expect(played).toEqual(["a", "b", "b"]);
    expect(read(second)).toBe("result of b");
  });

  it("leaves a run to the process that has started it", async () => {
    const run = runNamed("a");
    await play(run);
    const [file = ""] = readdirSync(place);
    rmSync(join(place, file));
    const other: Run<string> = {
      name: "before",
      play: async () => {
        // Another process starts it meanwhile.
        writeFileSync(join(place, `${file}.claim`), "");
        return "";
      },
    };
    await play(other, run);
    expect(played).toEqual(["a"]);
  });
});
