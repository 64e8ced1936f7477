/** Deletes a tenant, after its name has been typed, and leads to the erasure of its events, which is the receipt. */
import type { Hono } from "hono";
import type { Refused } from "../../../core/result.ts";
import { removeTenant } from "../../../features/tenants/service.ts";
import { FormNotice, formState, TextField } from "../../ui/fields.tsx";
import { tenantDeletionFields } from "../../ui/form-fields.ts";
import { addressOf, type Form, textIn } from "../../ui/format.ts";
import { ButtonLink, Crumb } from "../../ui/parts.tsx";
import { unreadable } from "../../ui/services.ts";
import { callService } from "../calls.ts";
import { showPage, showRefusal } from "../components/layout.tsx";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import { ERASURES } from "./erasures.tsx";
import { SETTINGS } from "./settings.tsx";
import { forOperators } from "./tenant-config.tsx";

const DELETE = `${SETTINGS}/delete`;

export function registerTenantDeletionPages(app: Hono<DashboardEnv>): void {
  app.get(DELETE, (c) => forOperators(c, (tenant) => showForm(c, tenant)));

  app.post(DELETE, async (c) => {
    const typed = await c.req.parseBody();
    const tenant = textIn(typed, "tenant") ?? "";
    const name = textIn(typed, "confirm") ?? "";
    if (name !== tenant) return showForm(c, tenant, { typed, refused: unreadable([notTheName(tenant)]) });
    const removed = await callService(c, removeTenant, tenant);
    if (removed.kind !== "ok") return showRefusal(c, removed, SETTINGS);
    return c.redirect(`${ERASURES}/${removed.value.id}`, 303);
  });
}

function notTheName(tenant: string) {
  return {
    field: "confirm",
    fault: "is not that of the tenant to delete",
    expected: `${tenant}, as it is written`,
  };
}

type Typed = Readonly<{ typed: Form; refused: Refused }>;

function showForm(c: DashboardContext, tenant: string, { typed, refused }: Partial<Typed> = {}) {
  const form = formState(typed ?? {}, tenantDeletionFields, refused);
  const settings = addressOf(SETTINGS, { tenant });
  return showPage(
    c,
    { title: `Delete ${tenant}`, place: "settings", refused },
    <section class="narrow">
      <Crumb href={settings}>{`Settings of ${tenant}`}</Crumb>
      <h1>{`Delete the tenant ${tenant}?`}</h1>
      <div class="stack">
        <p>
          This cannot be undone. It deletes the tenant's destinations and settings, revokes its keys, ends its
          sessions, disables its portal links, and erases the contents of all its events.
        </p>
        <p>Unfinished deliveries are cancelled. A request that is on its way still arrives.</p>
        <form class="stack" method="post" action={DELETE}>
          <input type="hidden" name="tenant" value={tenant} autocomplete="off" />
          <FormNotice form={form} />
          <TextField form={form} name="confirm" required maxlength={64} hint={`Type ${tenant} to confirm.`} />
          <div class="actions">
            <button type="submit" class="main bad">
              Delete the tenant
            </button>
            <ButtonLink href={settings}>Cancel</ButtonLink>
          </div>
        </form>
      </div>
    </section>,
  );
}
