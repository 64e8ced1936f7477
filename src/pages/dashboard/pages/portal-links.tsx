/** Makes portal links: an address that opens the portal of one tenant for a customer, once. */
import { newPortalLink, type PortalLink } from "../../../features/portal-links/schema.ts";
import { createPortalLink } from "../../../features/portal-links/service.ts";
import { FieldForm, formState, Input, Inputs, type RefusedForm } from "../../ui/fields.tsx";
import { portalLinkFields } from "../../ui/form-fields.ts";
import { type Form, momentOf, numberIn, textIn } from "../../ui/format.ts";
import { ButtonLink, Top } from "../../ui/parts.tsx";
import { ShownOnce } from "../../ui/secret-page.tsx";
import { showPage, showReadOnly } from "../components/layout.tsx";
import {
  AppearanceFields,
  appearanceIn,
  portalInputs,
  RuleFields,
  rulesIn,
} from "../components/portal-fields.tsx";
import { callWith, type Dashboard, type DashboardContext, mayCall, mayNameTenant } from "../session.ts";

const PATH = "/dashboard/portal-links";

export function registerPortalLinkPage(app: Dashboard): void {
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

/** @param own the tenant of a session that has one: the form has no field for it */
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

function showForm(c: DashboardContext, { typed, refused }: RefusedForm = {}) {
  if (!mayCall(c, createPortalLink)) return showReadOnly(c);
  const { tenant } = c.get("visitor");
  const fresh = { tenant, expires_in_s: "3600", ...portalInputs({}) };
  const form = formState(typed ?? fresh, portalLinkFields, refused);
  const lede = (
    <>
      A link opens one tenant's portal without a key. It works once, for whoever opens it first. Your own
      product requests links with <code>POST /v1/portal-links</code>.
    </>
  );
  return showPage(
    c,
    { title: "Portal links", place: "portal-links", refused },
    <Top of="narrow" title="Portal links" lede={lede}>
      <FieldForm form={form} action={PATH} submit="Create link">
        <div class="fields">
          <Inputs names={[...(mayNameTenant(c) ? ["tenant"] : []), "expires_in_s"]} />
        </div>
        <Input name="read_only" />
        <RuleFields />
        <p class="hint">A link can't grant what the tenant's settings forbid.</p>
        <AppearanceFields language="As in the tenant's settings" theme="As in the tenant's settings" />
        <Input name="return_url" />
      </FieldForm>
    </Top>,
  );
}

/** Not after a redirect: the link must appear in no other address. */
function showLink(c: DashboardContext, { url, tenant, read_only: readOnly, expires_at: until }: PortalLink) {
  const moment = momentOf(Date.parse(until), c.get("services").now());
  return showPage(
    c,
    { title: "New portal link", place: "portal-links" },
    <ShownOnce
      title="Link created"
      lede={`It opens the portal of ${tenant}${readOnly ? ", to read only," : ""} once, until ${moment} (UTC). Give it to that customer alone.`}
      texts={[["link", "The portal link", url]]}
    >
      <ButtonLink href={PATH}>Create another link</ButtonLink>
    </ShownOnce>,
  );
}
