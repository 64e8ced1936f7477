/** Settings of tenants, and the tenants themselves. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import {
  changeTenantSettings,
  findTenantSettings,
  listTenants,
} from "../../../src/features/tenants/settings.ts";
import { emptyDatabase, plainDestination } from "../../support/api.ts";

beforeEach(emptyDatabase);

test("tenants are listed by their names, a page at a time, each once", async () => {
  for (const [i, tenant] of ["b", "c", "a", "b", "d"].entries())
    await plainDestination(`dst_${i}`, { tenant });
  const page = (after?: string) => listTenants(env.DB, { after, limit: 2 });
  expect([await page(), await page("b"), await page("d")]).toEqual([["a", "b"], ["c", "d"], []]);
});

test("a change of settings leaves other settings, and other tenants', unchanged", async () => {
  await changeTenantSettings(env.DB, "acme", { retentionDays: 7 }, 1);
  await changeTenantSettings(env.DB, "rival", { retentionDays: 3 }, 2);
  const changed = await changeTenantSettings(env.DB, "acme", { contactEmail: "a@b.example" }, 3);
  expect(changed).toMatchObject({
    retentionDays: 7,
    contactEmail: "a@b.example",
    createdAt: 1,
    updatedAt: 3,
  });
  expect(await findTenantSettings(env.DB, "acme")).toEqual(changed);
  expect(await findTenantSettings(env.DB, "rival")).toMatchObject({ retentionDays: 3, updatedAt: 2 });
  expect(await findTenantSettings(env.DB, "none")).toBeUndefined();
});
