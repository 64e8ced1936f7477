/** API keys: lists them, creates one, which is shown once, and revokes one. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { scopes } from "../../../core/scopes.ts";
import { type KeyView, keyCursor, newKeySchema } from "../../../features/keys/schema.ts";
import { createKey, getKey, getKeys, removeKey } from "../../../features/keys/service.ts";
import { pageFrom } from "../../../features/parameters.ts";
import { CheckField, FormNotice, type FormState, formState, TextField } from "../../ui/fields.tsx";
import { keyFields } from "../../ui/form-fields.ts";
import { type Form, momentOf, textIn, utcIn } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  Ago,
  ButtonLink,
  ClippedCell,
  Confirmation,
  Copyable,
  Crumb,
  LineTable,
  OutcomeNotice,
  Pager,
  Section,
  Submit,
} from "../../ui/parts.tsx";
import { callService, callWith } from "../calls.ts";
import { actAndReturn, showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import {
  callerOnPage,
  type DashboardContext,
  type DashboardEnv,
  mayCall,
  mayNameTenant,
} from "../session.ts";

const PATH = "/dashboard/keys";
const PAGE_SIZE = 50;

export function registerKeyPages(app: Hono<DashboardEnv>): void {
  app.get(PATH, (c) => showKeys(c));

  app.post(PATH, async (c) => {
    const typed = await c.req.parseBody();
    const created = await callWith(c, newKeySchema, keyIn(typed), createKey);
    return created.kind === "ok" ? showKey(c, created.value.key) : showKeys(c, { typed, refused: created });
  });

  app.get(`${PATH}/:id/revoke`, async (c) => {
    if (!mayCall(c, getKeys)) return showReadOnly(c);
    const id = c.req.param("id");
    const found = await getKey(callerOnPage(c), id);
    if (found.kind !== "ok") return showNotFound(c);
    const isOwn = c.get("visitor").principal.key === id;
    return showRevocation(c, found.value, isOwn);
  });

  app.post(`${PATH}/:id/revoke`, (c) =>
    actAndReturn(c, (caller) => removeKey(caller, c.req.param("id")), PATH, "revoked"),
  );
}

/** A new key as the API takes it: what is empty is left out. */
export function keyIn(form: Form) {
  const given = {
    name: textIn(form, "name"),
    scopes: scopes.filter((scope) => form[inputOf(scope)] === "on"),
    tenant: textIn(form, "tenant"),
    destination_id: textIn(form, "destination_id"),
    expires_at: utcIn(form, "expires_at"),
    ...(form.confirm === "on" && { confirm: "dashboard" }),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function inputOf(scope: string): string {
  return `scope_${scope.replace(":", "_")}`;
}

type Typed = Readonly<{ typed: Form; refused: Refused }>;

async function showKeys(c: DashboardContext, { typed, refused }: Partial<Typed> = {}) {
  if (!mayCall(c, getKeys)) return showReadOnly(c);
  const { tenant, principal } = c.get("visitor");
  const given = c.req.query("cursor");
  const after = keyCursor.safeParse(given);
  const destination = c.req.query("destination");
  const page = { tenant, destination, after: after.data, limit: PAGE_SIZE + 1 };
  const listed = await callService(c, getKeys, page);
  if (listed.kind !== "ok") return showRefusal(c, listed, PATH);
  const { data: keys, next_cursor: next } = pageFrom(listed.value, PAGE_SIZE, ({ id }) => id);
  const isFor = destination !== undefined && { destination_id: destination };
  const values = typed ?? { tenant, ...isFor, [inputOf(isFor ? "poll" : "read")]: "on" };
  return showPage(
    c,
    { title: "API keys", place: "keys", refused },
    <>
      <section>
        {destination !== undefined && (
          <Crumb href={`/dashboard/destinations/${encodeURIComponent(destination)}`}>Destination</Crumb>
        )}
        <h1>API keys</h1>
        <p class="lede">
          Programs authenticate with these keys; you sign in with one. Only a hash of each is stored.
        </p>
      </section>
      <OutcomeNotice name={c.req.query("done")} />
      <Section id="list" title="Keys">
        <KeyTable
          keys={keys}
          own={principal.key}
          empty={given === undefined ? "No keys yet. Create the first one below." : "No more keys."}
        />
        <Pager
          path={PATH}
          query={{ destination }}
          next={next !== null && { cursor: next }}
          isFirst={given === undefined}
        >
          {destination !== undefined && <a href={PATH}>All keys</a>}
        </Pager>
      </Section>
      <Section id="new" title="New key" of="narrow">
        <KeyForm form={formState(values, keyFields, refused)} asksTenant={mayNameTenant(c)} />
      </Section>
    </>,
  );
}

const KeyForm: FC<{ form: FormState; asksTenant: boolean }> = ({ form, asksTenant }) => (
  <form class="stack" method="post" action={PATH}>
    <FormNotice form={form} />
    <div class="fields">
      <TextField form={form} name="name" maxlength={100} placeholder="checkout service" />
      {asksTenant && (
        <TextField form={form} name="tenant" placeholder="acme" hint="Empty means all tenants." />
      )}
      <TextField
        form={form}
        name="destination_id"
        hint="Polls this destination alone; the scope is poll then."
      />
      <TextField form={form} name="expires_at" type="datetime-local" hint="Empty means never." />
    </div>
    <fieldset class="fields">
      <legend>Scopes</legend>
      {scopes.map((scope) => (
        <CheckField form={form} name={inputOf(scope)} label={scope} hint={scopeTexts[scope]} />
      ))}
    </fieldset>
    <CheckField
      form={form}
      name="confirm"
      label="For an agent whose changes a person approves"
      hint="What it changes waits under Approvals."
    />
    <div class="actions">
      <Submit>Create key</Submit>
      <span class="hint">The key is shown once.</span>
    </div>
  </form>
);

const scopeTexts: Readonly<Record<(typeof scopes)[number], string>> = {
  "events:write": "Post events.",
  read: "Read everything but secrets, and sign in here.",
  poll: "Fetch events from polled destinations.",
  admin: "Change everything else.",
};

/** @param props `own`: the key that the session was opened with */
type TableProps = Readonly<{ keys: readonly KeyView[]; own: string | undefined; empty: string }>;

const KeyTable: FC<TableProps> = ({ keys, own, empty }) => (
  <LineTable
    columns={[
      ["Key", "main"],
      ["Scopes", "scopes wide"],
      ["Expires", "wide"],
      ["Last used"],
      [<span class="hidden">Actions</span>, "num count"],
    ]}
    empty={empty}
  >
    {keys.map((key) => (
      <KeyRow shown={key} own={own} />
    ))}
  </LineTable>
);

const KeyRow: FC<Pick<TableProps, "own"> & Readonly<{ shown: KeyView }>> = ({ shown, own }) => {
  const { now } = usePage();
  const { id, name, tenant, expires_at: expires, last_used_at: used } = shown;
  const about = [
    tenant === null ? "all tenants" : `of tenant ${tenant}`,
    ...(shown.destination_id === null ? [] : [`polls ${shown.destination_id}`]),
    ...(shown.made_in === null ? [] : ["made in the portal"]),
    ...(shown.confirm === null ? [] : ["changes are approved"]),
    ...(id === own ? ["your session's key"] : []),
    ...(name === null ? [] : [id]),
  ].join(" · ");
  return (
    <tr>
      <ClippedCell text={`${name ?? id} · ${about}`}>
        {name ?? id}
        <span class="sub">{about}</span>
      </ClippedCell>
      <td class="wide">{shown.scopes.join(", ")}</td>
      <td class="wide">{expires === null ? "never" : momentOf(Date.parse(expires), now)}</td>
      <td>{used === null ? "never" : <Ago at={used} />}</td>
      <td class="num">
        <a href={`${PATH}/${id}/revoke`} aria-label={`Revoke ${name ?? id}`}>
          Revoke
        </a>
      </td>
    </tr>
  );
};

/** Not after a redirect: the key must appear in no address, and is not stored to be shown again. */
function showKey(c: DashboardContext, key: string) {
  return showPage(
    c,
    { title: "New API key", place: "keys" },
    <section class="narrow">
      <h1>Key created</h1>
      <p class="lede">Copy it now: it is not shown again, and nobody can read it from the database.</p>
      <div class="stack">
        <Copyable id="key" text={key} label="The API key" />
        <div class="actions">
          <ButtonLink href={PATH}>Back to the keys</ButtonLink>
        </div>
      </div>
    </section>,
  );
}

function showRevocation(c: DashboardContext, { id, name }: KeyView, isOwn: boolean) {
  return showPage(
    c,
    { title: `Revoke ${name ?? id}`, place: "keys" },
    <Confirmation
      title={`Revoke ${name ?? id}?`}
      what={[
        "Within a minute the key is refused everywhere, and sessions that were opened with it end. This cannot be undone.",
        "Portal links that were made with it stop working too.",
        ...(isOwn ? ["You are signed in with this key: revoking it signs you out."] : []),
      ]}
      action={`${PATH}/${id}/revoke`}
      verb="Revoke the key"
      back={PATH}
    />,
  );
}
