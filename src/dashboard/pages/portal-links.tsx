/** Makes portal links: an address that opens the portal of one tenant for a customer, once. */
import type { Hono } from "hono";
import { type Refused, statusOfRefused } from "../../api/internal-client.ts";
import type { CallApi } from "../call-api.ts";
import { CheckField, ChoiceField, FormNotice, formState, TextField } from "../components/fields.tsx";
import { showPage, showReadOnly } from "../components/layout.tsx";
import { Copyable } from "../components/parts.tsx";
import { portalLinkFields } from "../form-fields.ts";
import { type Form, momentOf, numberIn, textIn } from "../format.ts";
import { type DashboardContext, type DashboardEnv, mayChange } from "../session.ts";

const PATH = "/dashboard/portal-links";

export function registerPortalLinkPage(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.get(PATH, (c) => showForm(c));

  app.post(PATH, async (c) => {
    const typed = await c.req.parseBody();
    const { principal } = c.get("visitor");
    const result = await callApi(c, "POST", "/v1/portal-links", linkIn(typed, principal.tenant));
    return result.ok ? showLink(c, result.json as Link) : showForm(c, { typed, refused: result });
  });
}

/** @param own the tenant of a session that has one: the form does not ask for it */
export function linkIn(form: Form, own: string | undefined) {
  return {
    tenant: own ?? textIn(form, "tenant") ?? "",
    expires_in_s: numberIn(form, "expires_in_s") ?? undefined,
    read_only: form.read_only === "on",
  };
}

type Typed = Readonly<{ typed: Form; refused: Refused }>;

function showForm(c: DashboardContext, { typed, refused }: Partial<Typed> = {}) {
  if (!mayChange(c)) return showReadOnly(c);
  const { tenant, principal } = c.get("visitor");
  const form = formState(typed ?? { tenant, expires_in_s: "3600" }, portalLinkFields, refused);
  return showPage(
    c,
    { title: "Portal links", place: "portal-links" },
    <section class="narrow">
      <h1>Portal links</h1>
      <p class="lede">
        A link opens the portal of one tenant for a customer, who needs no key: to whoever follows it first,
        and once. Your own product requests links with <code>POST /v1/portal-links</code>.
      </p>
      <form class="stack" method="post" action={PATH}>
        <FormNotice form={form} />
        <div class="fields">
          {principal.tenant === undefined && (
            <TextField form={form} name="tenant" required placeholder="acme" />
          )}
          <ChoiceField
            form={form}
            name="expires_in_s"
            options={[
              ["900", "15 minutes"],
              ["3600", "an hour"],
              ["86400", "a day"],
              ["604800", "7 days"],
            ]}
          />
        </div>
        <CheckField
          form={form}
          name="read_only"
          hint="The customer sees everything of the tenant, and changes nothing."
        />
        <div class="actions">
          <button type="submit" class="main">
            Create link
          </button>
        </div>
      </form>
    </section>,
    refused ? statusOfRefused(refused) : 200,
  );
}

/** As the API shows it. */
type Link = Readonly<{ url: string; tenant: string; read_only: boolean; expires_at: string }>;

/** Not after a redirect: the link must appear in no other address. */
function showLink(c: DashboardContext, { url, tenant, read_only: readOnly, expires_at: until }: Link) {
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
          <a class="button" href={PATH}>
            Create another link
          </a>
        </div>
      </div>
    </section>,
  );
}
