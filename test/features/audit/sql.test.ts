/** The audit trail in the database: entries in the order of time, each tenant's separate, and removed from the oldest on. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type AuditFilter,
  forgetAuditEntries,
  insertAuditEntries,
  listAuditEntries,
  type NewAuditEntry,
} from "../../../src/features/audit/sql.ts";
import { emptyDatabase } from "../../support/api.ts";
import { rowsOfAll } from "../../support/databases.ts";

const ACTOR = { kind: "admin_key", key: null, session: null } as const;

beforeEach(emptyDatabase);

const entry = (subject: string, tenant: string | null = "acme"): NewAuditEntry => ({
  tenant,
  action: "destination.created",
  subject,
  changes: null,
});

const add = (now: number, ...entries: NewAuditEntry[]) => insertAuditEntries(env.DB, ACTOR, entries, now);

async function list(filter: Partial<AuditFilter> = {}) {
  const all = { tenant: undefined, subject: undefined, since: undefined, until: undefined };
  return listAuditEntries(env.DB, { ...all, before: undefined, limit: 99, ...filter });
}

const subjects = async (filter?: Partial<AuditFilter>) =>
  (await list(filter)).map(({ subject }) => subject).join(" ");

describe("an entry", () => {
  test("says who did what, when and to what", async () => {
    const changes = { url: { from: "a", to: "b" } };
    await add(1_000, { ...entry("dst_a"), changes });
    expect(await list()).toMatchObject([
      { at: 1_000, tenant: "acme", actor: ACTOR, action: "destination.created", subject: "dst_a", changes },
    ]);
    await add(2_000, entry("deployment", null));
    expect(await list({ limit: 1 })).toMatchObject([{ tenant: null, changes: null, subject: "deployment" }]);
  });

  test("comes after those before it, in the same millisecond and when the clock has gone back", async () => {
    await add(1_000, entry("a"), entry("b"));
    await add(1_000, entry("c"));
    await add(999, entry("d"));
    await add(1_001, entry("e"));
    expect(await subjects()).toBe("e d c b a");
    const ids = (await list()).map(({ id }) => id).toReversed();
    expect(ids).toEqual([1_024_000, 1_024_001, 1_024_002, 1_024_003, 1_001 * 1_024]);
  });
});

describe("a list of entries", () => {
  beforeEach(async () => {
    await add(10, entry("a"), entry("b", "rival"), entry("a", null));
    await add(20, entry("b"), entry("c"));
    await add(30, entry("a"), entry("b", "rival"));
  });

  test("has the tenant's own, those of a subject, or both", async () => {
    expect(await subjects()).toBe("b a c b a b a");
    expect(await subjects({ tenant: "acme" })).toBe("a c b a");
    expect(await subjects({ tenant: "rival" })).toBe("b b");
    expect(await subjects({ subject: "b" })).toBe("b b b");
    expect(await subjects({ subject: "b", tenant: "rival" })).toBe("b b");
  });

  test("begins at a time, and ends before another", async () => {
    expect(await subjects({ since: 20 })).toBe("b a c b");
    expect(await subjects({ until: 20 })).toBe("a b a");
    expect(await subjects({ since: 11, until: 30 })).toBe("c b");
  });

  test("continues below the last entry of the page before, in the same range of time", async () => {
    const before = (await list({ limit: 3 })).at(-1)?.id;
    expect(await subjects({ before, limit: 2 })).toBe("b a");
    expect(await subjects({ before, until: 20 })).toBe("a b a");
    expect(await subjects({ before: before && before - 1, until: 30 })).toBe("a b a");
  });
});

test("entries from before a time are removed, the oldest first, and none of that time or later", async () => {
  await add(10, entry("a"));
  await add(19, entry("b"));
  await add(20, entry("c"));
  await add(21, entry("d"));
  await forgetAuditEntries(env.DB, 20);
  expect(await subjects()).toBe("d c");
  await add(30, ...Array.from({ length: 1_001 }, (_, i) => entry(`s${i}`)));
  await forgetAuditEntries(env.DB, 31);
  expect(await rowsOfAll("SELECT subject FROM audit_entries ORDER BY id")).toEqual([
    { subject: "s998" },
    { subject: "s999" },
    { subject: "s1000" },
  ]);
});
