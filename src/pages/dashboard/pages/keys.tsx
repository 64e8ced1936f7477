/** API keys: lists them, creates one, which is shown once, and revokes one. */
import type { FC } from "hono/jsx";
import { scopes } from "../../../core/scopes.ts";
import { type KeyView, keyCursor, newKeySchema } from "../../../features/keys/schema.ts";
import { createKey, getKey, getKeys, removeKey } from "../../../features/keys/service.ts";
import { pageFrom } from "../../../features/parameters.ts";
import { FieldForm, formState, Input, Inputs, type RefusedForm } from "../../ui/fields.tsx";
import { given, keyFields, readInputs } from "../../ui/form-fields.ts";
import { type Form, momentOf } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  Ago,
  ButtonLink,
  Confirmation,
  LineTable,
  OutcomeNotice,
  Pager,
  Section,
  Top,
} from "../../ui/parts.tsx";
import { ShownOnce } from "../../ui/secret-page.tsx";
import { actAndReturn, showNotFound, showPage, showReadOnly, showRefusal } from "../components/layout.tsx";
import {
  callerOnPage,
  callService,
  callWith,
  type Dashboard,
  type DashboardContext,
  mayCall,
  mayNameTenant,
} from "../session.ts";

const PATH = "/dashboard/keys";
const PAGE_SIZE = 50;

export function registerKeyPages(app: Dashboard): void {
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

/** A new key as the API takes it: empty fields are left out. */
export function keyIn(form: Form) {
  const { scopes: _, confirm, ...input } = readInputs(form, keyFields).input;
  return given(
    Object.entries({
      ...input,
      scopes: scopes.filter((scope) => form[inputOf(scope)] === "on"),
      confirm: confirm ? "dashboard" : null,
    }),
  );
}

function inputOf(scope: string): string {
  return `scope_${scope.replace(":", "_")}`;
}

async function showKeys(c: DashboardContext, { typed, refused }: RefusedForm = {}) {
  if (!mayCall(c, getKeys)) return showReadOnly(c);
  const { tenant, principal } = c.get("visitor");
  const cursor = c.req.query("cursor");
  const after = keyCursor.safeParse(cursor);
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
      <Top
        crumb={
          destination === undefined
            ? undefined
            : [`/dashboard/destinations/${encodeURIComponent(destination)}`, "Destination"]
        }
        title="API keys"
        lede="Programs authenticate with these keys; you sign in with one. Only a hash of each is stored."
      />
      <OutcomeNotice name={c.req.query("done")} />
      <Section id="list" title="Keys">
        <KeyTable
          keys={keys}
          own={principal.key}
          empty={cursor === undefined ? "No keys yet. Create the first one below." : "No more keys."}
        />
        <Pager
          path={PATH}
          query={{ destination }}
          next={next !== null && { cursor: next }}
          isFirst={cursor === undefined}
        >
          {destination !== undefined && <a href={PATH}>All keys</a>}
        </Pager>
      </Section>
      <Section id="new" title="New key" of="narrow">
        <FieldForm
          form={formState(values, keyFields, refused)}
          action={PATH}
          submit="Create key"
          hint="The key is shown once."
        >
          <div class="fields">
            <Inputs
              names={["name", ...(mayNameTenant(c) ? ["tenant"] : []), "destination_id", "expires_at"]}
            />
          </div>
          <fieldset class="fields">
            <legend>Scopes</legend>
            {scopes.map((scope) => (
              <Input kind="check" name={inputOf(scope)} label={scope} hint={scopeTexts[scope]} />
            ))}
          </fieldset>
          <Input name="confirm" />
        </FieldForm>
      </Section>
    </>,
  );
}

const scopeTexts: Readonly<Record<(typeof scopes)[number], string>> = {
  "events:write": "Post events.",
  read: "Read everything but secrets, and sign in here.",
  poll: "Fetch events from polled destinations.",
  admin: "Change everything else.",
};

/** @param props `own`: the key that the session was opened with */
type TableProps = Readonly<{ keys: readonly KeyView[]; own: string | undefined; empty: string }>;

const KeyTable: FC<TableProps> = ({ keys, own, empty }) => {
  const { now } = usePage();
  const nameOf = ({ name, id }: KeyView) => name ?? id;
  return (
    <LineTable
      rows={keys}
      columns={[
        [
          "Key",
          "main",
          (key) => (
            <>
              {nameOf(key)}
              <span class="sub">{aboutText(key, own)}</span>
            </>
          ),
          (key) => `${nameOf(key)} · ${aboutText(key, own)}`,
        ],
        ["Scopes", "scopes wide", (key) => key.scopes.join(", ")],
        ["Expires", "wide", ({ expires_at: at }) => (at === null ? "never" : momentOf(Date.parse(at), now))],
        ["Last used", "", ({ last_used_at: at }) => (at === null ? "never" : <Ago at={at} />)],
        [
          <span class="hidden">Actions</span>,
          "num count",
          (key) => (
            <a href={`${PATH}/${key.id}/revoke`} aria-label={`Revoke ${nameOf(key)}`}>
              Revoke
            </a>
          ),
        ],
      ]}
      empty={empty}
    />
  );
};

function aboutText({ id, name, tenant, ...key }: KeyView, own: string | undefined): string {
  return [
    tenant === null ? "all tenants" : `of tenant ${tenant}`,
    key.destination_id !== null && `polls ${key.destination_id}`,
    key.made_in !== null && "made in the portal",
    key.confirm !== null && "changes are approved",
    id === own && "your session's key",
    name !== null && id,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** Not after a redirect: the key must appear in no address, and is not stored to be shown again. */
function showKey(c: DashboardContext, key: string) {
  return showPage(
    c,
    { title: "New API key", place: "keys" },
    <ShownOnce
      title="Key created"
      lede="Copy it now: it is not shown again, and cannot be read from the database."
      texts={[["key", "The API key", key]]}
    >
      <ButtonLink href={PATH}>Back to the keys</ButtonLink>
    </ShownOnce>,
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
