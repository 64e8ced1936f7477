/** The tests of the fast lanes, over sources with mutants in them (run.ts). */
import { defineConfig } from "vitest/config";
import tests from "../vitest.config.ts";
import { mutationPlugin, planned } from "./plan.ts";

const plan = planned();
const { projects = [], ...options } = tests.test ?? {};

export default defineConfig({
  ...tests,
  test: {
    ...options,
    projects: projects.flatMap((project) => {
      if (typeof project !== "object" || !("test" in project) || !project.test) return [];
      const { setupFiles = [], ...test } = project.test;
      return {
        ...project,
        plugins: [mutationPlugin(plan), ...(project.plugins ?? [])],
        test: {
          ...test,
          // State that a mutant has left behind ends with its file.
          isolate: true,
          // A thread ends with the process, even if a mutant never ends.
          ...("environment" in test && { pool: "threads" as const }),
          setupFiles: ["test/mutation/in-tests.ts", ...[setupFiles].flat()],
          testTimeout: 60_000,
          sequence: { hooks: "list" as const },
        },
      };
    }),
  },
});
