/** Chooses the one tenant whose things the pages show. Its name in an address does the same: `?tenant=acme`. */

import type { Hono } from "hono";
import { ok } from "../../../core/result.ts";
import { getTenants } from "../../../features/tenants/service.ts";
import { ButtonLink, Section } from "../../ui/parts.tsx";
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
    const known = listed.value;
    const shown = known.slice(0, PAGE_SIZE);
    const next = known.length > PAGE_SIZE ? shown.at(-1) : undefined;
    return showPage(
      c,
      { title: "Tenants", place: "tenants" },
      <>
        <section class="narrow">
          <h1>Tenants</h1>
          <p class="lede break">
            {tenant === undefined
              ? "The pages show all tenants. Choose one to see only what belongs to it."
              : `The pages show the tenant ${tenant} alone.`}
          </p>
          <TenantForm action="/dashboard" button="Show this tenant">
            {tenant !== undefined && own === undefined && (
              <ButtonLink href="/dashboard?tenant=">Show all tenants</ButtonLink>
            )}
          </TenantForm>
        </section>
        <Section id="known" title={own ? "Your tenants" : "Tenants with destinations"}>
          {shown.length === 0 ? (
            <p class="empty">
              {after === undefined
                ? "None yet. A tenant appears here once it has a destination."
                : "No more tenants."}
            </p>
          ) : (
            <ul class="names">
              {shown.map((name) => (
                <li class="break">
                  <a href={`/dashboard?${new URLSearchParams({ tenant: name })}`}>{name}</a>
                </li>
              ))}
            </ul>
          )}
          <p class="pager">
            {after !== undefined && <a href={PATH}>First page</a>}
            {next !== undefined && <a href={`${PATH}?${new URLSearchParams({ after: next })}`}>Next page</a>}
          </p>
        </Section>
      </>,
    );
  });
}
