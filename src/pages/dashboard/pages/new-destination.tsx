/** Creates a destination, and shows a new signing secret the only time that it can be shown. */

import type { Hono } from "hono";
import { OPERATOR } from "../../../core/principal.ts";
import type { Refused } from "../../../core/result.ts";
import type { ShownSecret } from "../../../features/destinations/schema.ts";
import { createDestination } from "../../../features/destinations/service.ts";
import { readCreation } from "../../../features/destinations/validate.ts";
import { newTokenId } from "../../../secrets/tokens.ts";
import type { Destination } from "../../../store/destination.ts";
import { listTypeNames } from "../../../store/event-types.ts";
import { FormNotice, formState } from "../../ui/fields.tsx";
import { destinationLabels } from "../../ui/form-fields.ts";
import { type Form, textIn } from "../../ui/format.ts";
import { ButtonLink, Crumb, outcomeAt, Submit } from "../../ui/parts.tsx";
import { SecretPage } from "../../ui/secret-page.tsx";
import { attemptRead, unreadable } from "../../ui/services.ts";
import { DestinationFields } from "../components/destination-form.tsx";
import { showPage, showReadOnly } from "../components/layout.tsx";
import { errorsIn, newDestinationIn } from "../destination-input.ts";
import {
  callerOnPage,
  type DashboardContext,
  type DashboardEnv,
  mayCall,
  mayNameTenant,
} from "../session.ts";

const PATH = "/dashboard/destinations/new";

export function registerNewDestination(app: Hono<DashboardEnv>): void {
  app.get(PATH, (c) => (mayCall(c, createDestination) ? showForm(c, {}) : showReadOnly(c)));

  app.post(PATH, async (c) => {
    const form = await c.req.parseBody();
    const { input, errors } = newDestinationIn(form);
    if (errors.length > 0) return showForm(c, form, unreadable(errors));
    const caller = callerOnPage(c);
    const [key, requestUrl] = [textIn(form, "form"), c.req.url];
    const read = readCreation(caller.services, input, requestUrl);
    const created = await attemptRead(caller, read, (destination) =>
      createDestination(caller, { destination, key, requestUrl }),
    );
    if (created.kind === "ok") return showNewSecret(c, created.value, "Destination created");
    const { existing } = created;
    return existing === undefined
      ? showForm(c, form, created)
      : c.redirect(outcomeAt(`/dashboard/destinations/${existing}`, "created-before"), 303);
  });
}

/** Event types that the form suggests; the others can be typed. */
const MOST_SUGGESTED = 100;

/** Facts that the form of a destination depends on besides the destination. */
export async function formOptions(c: DashboardContext, tenant: string | undefined) {
  const { db, config } = c.get("services");
  return {
    allowsHttp: config.allowPrivateDestinations,
    types: await listTypeNames(db, MOST_SUGGESTED),
    mayHaveTemplate: tenant === undefined || tenant === OPERATOR,
  };
}

async function showForm(c: DashboardContext, typed: Form, refused?: Refused) {
  const {
    tenant: chosen,
    principal: { tenant },
  } = c.get("visitor");
  const options = { ...(await formOptions(c, tenant)), isNew: true, asksTenant: mayNameTenant(c) };
  const values = refused ? typed : { sign_standard: "on", tenant: chosen };
  const form = {
    ...formState(values, destinationLabels, refused),
    errors: errorsIn(values, refused?.errors ?? []),
  };
  return showPage(
    c,
    { title: "New destination", refused },
    <section class="narrow">
      <Crumb href="/dashboard">Overview</Crumb>
      <h1>New destination</h1>
      <form class="stack" method="post" action={PATH} noValidate>
        <input type="hidden" name="form" value={textIn(typed, "form") ?? newTokenId()} autocomplete="off" />
        <FormNotice form={form} />
        <DestinationFields form={form} options={options} />
        <div class="actions">
          <Submit>Create destination</Submit>
        </div>
      </form>
    </section>,
  );
}

const secretTexts = {
  keyLede:
    "Your receiver verifies signatures with this public key, which the destination's JSON Web Key Set has too.",
  label: "The signing secret",
  publicKey: "The public key",
};

const ledes = {
  "Destination created":
    "Your receiver verifies signatures with this secret. Copy it now: it is not shown again.",
  "Secret rotated":
    "Requests are signed with this secret from now on, and with the replaced ones until they expire. Copy it now: it is not shown again.",
} as const;

export function showNewSecret(
  c: DashboardContext,
  { row: { id }, shown }: Readonly<{ row: Destination; shown: ShownSecret }>,
  title: keyof typeof ledes,
) {
  return showPage(
    c,
    { title: "Signing secret" },
    <SecretPage shown={shown} texts={{ ...secretTexts, title, lede: ledes[title] }}>
      <ButtonLink href={`/dashboard/destinations/${id}`}>Go to the destination</ButtonLink>
    </SecretPage>,
  );
}
