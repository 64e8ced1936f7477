/** Makes portal links: an address that opens the portal of one tenant for a customer, once. */
import type { Hono } from "hono";
import type { Refused } from "../../../core/result.ts";
import { newPortalLink, type PortalLink } from "../../../features/portal-links/schema.ts";
import { createPortalLink } from "../../../features/portal-links/service.ts";
import { CheckField, FormNotice, formState, TextField } from "../../ui/fields.tsx";
import { portalLinkFields } from "../../ui/form-fields.ts";
import { type Form, momentOf, numberIn, textIn } from "../../ui/format.ts";
import { ButtonLink, Copyable, Submit } from "../../ui/parts.tsx";
import { callWith } from "../calls.ts";
import { showPage, showReadOnly } from "../components/layout.tsx";
import {
  AppearanceFields,
  appearanceIn,
  portalInputs,
  RuleFields,
  rulesIn,
} from "../components/portal-fields.tsx";
import { type DashboardContext, type DashboardEnv, mayCall, mayNameTenant } from "../session.ts";

const PATH = "/dashboard/portal-links";

export function registerPortalLinkPage(app: Hono<DashboardEnv>): void {
  app.get(PATH, (c) => showForm(c));

  app.post(PATH, async (c) => {
    const typed = await c.req.parseBody();
    const { principal } = c.get("visitor");
    const input = linkIn(typed, mayNameTenant(c) ? undefined : principal.tenant);
    const made = await callWith(c, newPortalLink, input, (caller, options) =>
      createPortalLink(caller, { options, requestUrl: c.req.url }),
    );
    return made.kind === "ok" ? showLink(c, made.value) : showForm(c, { typed, refused: made });
  });
}

/** @param own the tenant of a session that has one: the form does not ask for it */
export function linkIn(form: Form, own: string | undefined) {
  return {
    tenant: own ?? textIn(form, "tenant") ?? "",
    expires_in_s: numberIn(form, "expires_in_s") ?? undefined,
    read_only: form.read_only === "on",
    access: rulesIn(form),
    ...appearanceIn(form),
    return_url: textIn(form, "return_url") ?? null,
  };
}

type Typed = Readonly<{ typed: Form; refused: Refused }>;

function showForm(c: DashboardContext, { typed, refused }: Partial<Typed> = {}) {
  if (!mayCall(c, createPortalLink)) return showReadOnly(c);
  const { tenant } = c.get("visitor");
  const fresh = { tenant, expires_in_s: "3600", ...portalInputs({}) };
  const form = formState(typed ?? fresh, portalLinkFields, refused);
  return showPage(
    c,
    { title: "Portal links", place: "portal-links", refused },
    <section class="narrow">
      <h1>Portal links</h1>
      <p class="lede">
        A link opens one tenant's portal without a key. It works once, for whoever opens it first. Your own
        product requests links with <code>POST /v1/portal-links</code>.
      </p>
      <form class="stack" method="post" action={PATH}>
        <FormNotice form={form} />
        <div class="fields">
          {mayNameTenant(c) && <TextField form={form} name="tenant" required placeholder="acme" />}
          <TextField
            form={form}
            name="expires_in_s"
            type="number"
            hint="An hour is 3600, a day 86400. At most 604800, seven days. Empty means an hour."
          />
        </div>
        <CheckField
          form={form}
          name="read_only"
          hint="The customer can't change anything, whatever is ticked below."
        />
        <RuleFields form={form} />
        <p class="hint">A link can't grant what the tenant's settings forbid.</p>
        <AppearanceFields
          form={form}
          otherwise={{ language: "As in the tenant's settings", theme: "As in the tenant's settings" }}
        />
        <TextField
          form={form}
          name="return_url"
          placeholder="https://app.example.com/settings"
          hint="An https page of yours. Every page of the portal links back to it."
        />
        <div class="actions">
          <Submit>Create link</Submit>
        </div>
      </form>
    </section>,
  );
}

/** Not after a redirect: the link must appear in no other address. */
function showLink(c: DashboardContext, { url, tenant, read_only: readOnly, expires_at: until }: PortalLink) {
  const moment = momentOf(Date.parse(until), c.get("services").now());
  return showPage(
    c,
    { title: "New portal link", place: "portal-links" },
    <section class="narrow">
      <h1>Link created</h1>
      <p class="lede break">
        {`It opens the portal of ${tenant}${readOnly ? ", to read only," : ""} once, until ${moment} (UTC). Give it to that customer alone.`}
      </p>
      <div class="stack">
        <Copyable id="link" text={url} label="The portal link" />
        <div class="actions">
          <ButtonLink href={PATH}>Create another link</ButtonLink>
        </div>
      </div>
    </section>,
  );
}
