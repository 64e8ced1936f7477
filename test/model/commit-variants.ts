/** The scenarios of the commit's model, and commits that are broken on purpose. */
import { type CommitParts, type CommitScenario, commitModel } from "./commit.ts";
import { type Checked, checked, type Variant } from "./report.ts";

const two: CommitScenario = {
  senders: [{ name: "Ann" }, { name: "Bob" }],
  faults: 1,
  creates: false,
  posts: 2,
};
const keyed: CommitScenario = {
  senders: [
    { name: "Ann", key: "k" },
    { name: "Bob", key: "k" },
  ],
  faults: 1,
  creates: false,
  posts: 2,
};
const routed: CommitScenario = { senders: [{ name: "Ann" }], faults: 1, creates: true, posts: 2 };
const often: CommitScenario = { senders: [{ name: "Ann" }], faults: 3, creates: true, posts: 3 };

export const smallCommits: readonly Checked[] = [
  checked("One event, a destination created meanwhile, one fault", () => commitModel(routed)),
  checked("Two requests under one key, no fault", () => commitModel({ ...keyed, faults: 0 })),
];

export const deepCommits: readonly Checked[] = [
  checked("One event posted up to three times, a destination created meanwhile, three faults", () =>
    commitModel(often),
  ),
  checked("Two events, posted up to three times each, four faults", () =>
    commitModel({ ...two, faults: 4, posts: 3 }),
  ),
  checked("Two requests under one key, posted up to twice each, three faults", () =>
    commitModel({ ...keyed, faults: 3 }),
  ),
];

function broken(name: string, scenario: CommitScenario, parts: CommitParts): Variant {
  return checked(name, () => commitModel(scenario, parts));
}

/** Replaces a part of the statement that inserts bundles. */
function inInsert(part: RegExp | string, by: string) {
  return (sql: string) => {
    if (!sql.includes("INSERT INTO bundles (id, tokens, accepted_at, deliver_at")) return sql;
    const edited = sql.replace(part, by);
    if (edited === sql) throw new Error(`The commit has no ${part}`);
    return edited;
  };
}

export const brokenCommits: readonly Variant[] = [
  broken("The commit does not look for its token", routed, {
    edit: inInsert("b.id > ?1 AND t.value IN", "0 AND b.id > ?1 AND t.value IN"),
  }),
  broken("The commit does not compare revisions", routed, {
    edit: inInsert("coalesce(t.revision, 0) <> r.value", "0"),
  }),
  broken(
    "The commit does not look for its key",
    { ...keyed, faults: 0 },
    {
      edit: inInsert(
        /AND NOT EXISTS \(SELECT 1 FROM json_each\(\?4\)/,
        "AND NOT EXISTS (SELECT 1 FROM json_each('[]')",
      ),
    },
  ),
  broken(
    "A repeat takes the floor of the moment",
    { ...routed, creates: false, faults: 2 },
    { forgetsTries: true },
  ),
];
