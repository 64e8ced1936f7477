/** Chooses the one tenant that the pages show. Its name in an address does the same: `?tenant=acme`. */

import type { FC, PropsWithChildren } from "hono/jsx";
import { ok } from "../../../core/result.ts";
import { getTenants } from "../../../features/tenants/service.ts";
import { FieldForm } from "../../ui/fields.tsx";
import { addressOf } from "../../ui/format.ts";
import { ButtonLink, Pager, Section, Top } from "../../ui/parts.tsx";
import { pageAfter } from "../../ui/services.ts";
import { showNotFound, showPage } from "../components/layout.tsx";
import { callerOnPage, type Dashboard } from "../session.ts";

const PATH = "/dashboard/tenants";
const PAGE_SIZE = 100;

export function registerTenantPage(app: Dashboard): void {
  app.get(PATH, async (c) => {
    const { tenant, tenants: own } = c.get("visitor");
    const listed = await pageAfter(
      c.req.query("after"),
      PAGE_SIZE,
      async (page) => (own ? ok(own) : getTenants(callerOnPage(c), page)),
      (name) => name,
    );
    if (listed.kind !== "ok") return showNotFound(c);
    const { rows, ...pager } = listed.value;
    const lede =
      tenant === undefined
        ? "The pages show all tenants. Choose one to see only what belongs to it."
        : `The pages show only the tenant ${tenant}.`;
    const empty = pager.isFirst
      ? "None yet. A tenant appears here once it has a destination."
      : "No more tenants.";
    return showPage(
      c,
      { title: "Tenants", place: "tenants" },
      <>
        <Top of="narrow" title="Tenants" lede={lede}>
          <TenantForm action="/dashboard" button="Show this tenant">
            {tenant !== undefined && own === undefined && (
              <ButtonLink href="/dashboard?tenant=">Show all tenants</ButtonLink>
            )}
          </TenantForm>
        </Top>
        <Section id="known" title={own ? "Your tenants" : "Tenants with destinations"}>
          {rows.length === 0 && <p class="empty">{empty}</p>}
          <ul class="names">
            {rows.map((name) => (
              <li class="break">
                <a href={addressOf("/dashboard", { tenant: name })}>{name}</a>
              </li>
            ))}
          </ul>
          <Pager path={PATH} {...pager} />
        </Section>
      </>,
    );
  });
}

type FormProps = PropsWithChildren<Readonly<{ action: string; button: string }>>;

/** Chooses a tenant by its name, for the page at `action`. @param props `children`: further actions, beside the button */
export const TenantForm: FC<FormProps> = ({ action, button, children }) => (
  <FieldForm method="get" action={action} submit={button} aside={children}>
    <label>
      Tenant
      <input name="tenant" required maxlength={64} placeholder="acme" autocomplete="off" spellcheck={false} />
    </label>
  </FieldForm>
);
