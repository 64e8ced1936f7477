/** Chooses the one tenant whose things the pages show. Its name in an address does the same: `?tenant=acme`. */

import type { Hono } from "hono";
import { ok } from "../../../core/result.ts";
import { getTenants } from "../../../features/tenants/service.ts";
import { addressOf } from "../../ui/format.ts";
import { ButtonLink, Pager, Section, Top } from "../../ui/parts.tsx";
import { pageOfRows } from "../../ui/services.ts";
import { showNotFound, showPage } from "../components/layout.tsx";
import { TenantForm } from "../components/tenant-form.tsx";
import { callerOnPage, type DashboardEnv } from "../session.ts";

const PATH = "/dashboard/tenants";
const PAGE_SIZE = 100;

export function registerTenantPage(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const { tenant, tenants: own } = c.get("visitor");
    const after = c.req.query("after");
    const listed = own ? ok(own) : await getTenants(callerOnPage(c), { after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return showNotFound(c);
    const { rows, next } = pageOfRows(listed.value, PAGE_SIZE);
    return showPage(
      c,
      { title: "Tenants", place: "tenants" },
      <>
        <Top
          of="narrow"
          title="Tenants"
          lede={
            tenant === undefined
              ? "The pages show all tenants. Choose one to see only what belongs to it."
              : `The pages show the tenant ${tenant} alone.`
          }
        >
          <TenantForm action="/dashboard" button="Show this tenant">
            {tenant !== undefined && own === undefined && (
              <ButtonLink href="/dashboard?tenant=">Show all tenants</ButtonLink>
            )}
          </TenantForm>
        </Top>
        <Section id="known" title={own ? "Your tenants" : "Tenants with destinations"}>
          {rows.length === 0 ? (
            <p class="empty">
              {after === undefined
                ? "None yet. A tenant appears here once it has a destination."
                : "No more tenants."}
            </p>
          ) : (
            <ul class="names">
              {rows.map((name) => (
                <li class="break">
                  <a href={addressOf("/dashboard", { tenant: name })}>{name}</a>
                </li>
              ))}
            </ul>
          )}
          <Pager path={PATH} next={next && { after: next }} isFirst={after === undefined} />
        </Section>
      </>,
    );
  });
}
