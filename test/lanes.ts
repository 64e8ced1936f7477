/**
 * Which tests run when. A lane is a set of Vitest projects, and a project's globs follow from file names alone:
 *
 * | file                                        | project              | runs in                    | lane |
 * |---------------------------------------------|----------------------|----------------------------|------|
 * | `test/core/*.test.ts`, `*.node.test.ts`     | pure                 | Node                       | unit |
 * | `*.test.ts`                                 | workers              | workerd, one D1 database   | test |
 * | `test/sharded/*.test.ts`                    | three databases      | workerd, three databases   | test |
 * | `*.deep.node.test.ts`                       | deep                 | Node                       | deep |
 * | `*.deep.test.ts`                            | deep workers         | workerd, one database      | deep |
 * | (some of those)                             | deep three databases | workerd, three databases   | deep |
 * | `test/scenario/*.test.ts`                   | deep scenario        | Node, and a whole stack    | deep |
 * | (some of those)                             | deep scenario alone  | Node, and a whole stack    | deep |
 * | `test/browser/*.test.ts`                    | (its own config)     | Node, and a browser        | browser |
 *
 * `npm run test:unit` is the unit lane, `npm test` is unit and test, `npm run test:deep` is deep, and
 * `npm run test:browser` is browser. `npm run test:all` is, in one run, what needs neither a stack nor a browser. Deep is what takes
 * more than about ten seconds: every call failing in turn, long property tests, simulations of hours, and whatever starts and kills
 * whole stacks. A project belongs to the deep lane when its name begins with "deep"; `test/lanes.node.test.ts` checks that no file is
 * left out.
 */
type Globs = Readonly<{ include: readonly string[]; exclude?: readonly string[] }>;

const inNode = ["test/core/**/*.test.ts", "test/**/*.node.test.ts", "bench/**/*.node.test.ts"];
const deep = ["test/**/*.deep.test.ts", "{test,bench}/**/*.deep.node.test.ts"];
const deepInNode = ["{test,bench}/**/*.deep.node.test.ts"];
const sharded = ["test/sharded/**/*.test.ts"];
const scenarios = ["test/scenario/**/*.test.ts"];
/** Where a position in one database could pass what another has: nothing happens with one database that does not happen here. */
const severalDatabases = [
  "test/delivery/every-fault/sending-again.deep.test.ts",
  "test/features/polling/polling-model.deep.test.ts",
  "test/ingest/pinned-tenants.deep.test.ts",
];
/** Their results depend on the speed of the stack, which another stack would slow down. */
const alone = ["test/scenario/verify.test.ts", "test/scenario/cost.test.ts"];
export const browser = ["test/browser/**/*.test.ts"];

export const projects = {
  pure: { include: inNode, exclude: deep },
  workers: {
    include: ["test/**/*.test.ts"],
    exclude: [...inNode, ...deep, ...sharded, ...scenarios, ...browser],
  },
  // The drain and repeated deliveries are where several databases could differ from one.
  "three databases": {
    include: [...sharded, "test/delivery/drain.test.ts", "test/store/event-list.test.ts"],
  },
  deep: { include: deepInNode },
  "deep workers": { include: ["test/**/*.deep.test.ts"], exclude: severalDatabases },
  "deep three databases": { include: severalDatabases },
  "deep scenario": { include: scenarios, exclude: [...inNode, ...alone] },
  "deep scenario alone": { include: alone },
} as const satisfies Readonly<Record<string, Globs>>;

export type Project = keyof typeof projects;

export const lanes = {
  unit: { script: "test:unit", projects: ["pure"] },
  test: { script: "test", projects: ["workers", "three databases"] },
  deep: {
    script: "test:deep",
    projects: ["deep", "deep workers", "deep three databases", "deep scenario", "deep scenario alone"],
  },
} as const satisfies Readonly<Record<string, Readonly<{ script: string; projects: readonly Project[] }>>>;

/** The slowest files, in that order: begun last, they would leave the other cores idle. */
export const longest: readonly string[] = [
  "bench/storm.deep.node.test.ts",
  "test/model/model.deep.node.test.ts",
  "test/receivers/mutants.deep.node.test.ts",
  "test/http/fuzz.deep.test.ts",
  "test/routes/strangers.deep.test.ts",
  "test/delivery/every-fault/crash.deep.test.ts",
  "test/delivery/every-fault/after.deep.test.ts",
  "test/delivery/every-fault/before.deep.test.ts",
  "test/delivery/every-fault/sending-again.deep.test.ts",
  "test/features/notices/storm.deep.node.test.ts",
  "test/delivery/delivery-model.deep.test.ts",
  "test/receivers/receivers.deep.node.test.ts",
  "test/features/strangers.deep.test.ts",
  "test/jobs/every-job.deep.test.ts",
  "test/reads/ceilings.test.ts",
  "test/http/tenancy.test.ts",
  "test/http/transient.test.ts",
  "test/model/model.node.test.ts",
];
