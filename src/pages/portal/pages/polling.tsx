/**
 * Explains how the visitor's programs fetch from a polled endpoint, and manages their keys: created, shown once and
 * revoked here.
 */
import type { FC } from "hono/jsx";
import { getDestination } from "../../../features/destinations/service.ts";
import { type KeyView, newPollKey } from "../../../features/keys/schema.ts";
import { createPollKey, getPollKeys, removePollKey } from "../../../features/keys/service.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { FieldForm, Input } from "../../ui/fields.tsx";
import { textIn } from "../../ui/format.ts";
import { Ago, Copyable, Fold, LineTable, OutcomeNotice, RowName, Section, Top } from "../../ui/parts.tsx";
import { attemptWith } from "../../ui/services.ts";
import { actInPortal, showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import { usePortal } from "../look.ts";
import { portalForm } from "../problems.ts";
import { callerInPortal, type Portal, type PortalContext } from "../session.ts";
import { may } from "../surface.ts";

const POLL = "/portal/endpoints/:id/poll";

export function registerPortalPolling(app: Portal): void {
  app.get(POLL, may("manage_poll_keys"), (c) => showPolling(c, c.req.param("id")));

  app.post(POLL, may("manage_poll_keys"), async (c) => {
    const id = c.req.param("id");
    const name = textIn(await c.req.parseBody(), "name");
    const created = await attemptWith(callerInPortal(c), newPollKey, { name }, (caller, input) =>
      createPollKey(caller, { destination: id, input }),
    );
    if (created.kind === "ok") return showPolling(c, id, { made: created.value.key });
    const { t } = c.get("look");
    if (created.kind === "invalid") return showPolling(c, id, { name, fault: t.polling.nameFault });
    if (created.kind === "conflict") return showPolling(c, id, { name, fault: t.polling.full });
    return showRefused(c, created, `/portal/endpoints/${id}/poll`);
  });

  app.post(`${POLL}/keys/:key/revoke`, may("manage_poll_keys"), (c) => {
    const { id, key } = c.req.param();
    return actInPortal(c, (caller) => removePollKey(caller, { destination: id, id: key }), [
      `/portal/endpoints/${id}/poll`,
      "key-revoked",
    ]);
  });
}

/** `made`: a key that has just been created. Otherwise the form, with its input and its faults. */
type Shown = Readonly<{ made?: string; name?: string | undefined; fault?: string }>;

async function showPolling(c: PortalContext, id: string, { made, name, fault }: Shown = {}) {
  const caller = callerInPortal(c);
  const { t } = c.get("look");
  const [found, keys] = await Promise.all([getDestination(caller, id), getPollKeys(caller, id)]);
  if (found.kind !== "ok" || keys.kind !== "ok") return showPortalNotFound(c);
  const form = portalForm({ name }, { name: t.polling.name }, fault === undefined ? {} : { name: fault });
  return showPortalPage(
    c,
    { title: t.polling.title, place: "endpoints" },
    <>
      <Top
        crumb={[`/portal/endpoints/${id}`, nameOf(found.value)]}
        title={made === undefined ? t.polling.title : t.polling.createdTitle}
        lede={made === undefined ? t.polling.lede : t.polling.createdLede}
      />
      <OutcomeNotice name={c.req.query("done")} />
      {made !== undefined && <Copyable id="key" label={t.polling.key} text={made} />}
      <Section id="keys" title={t.polling.keys} of="stack">
        <Keys path={`/portal/endpoints/${id}/poll`} keys={keys.value} />
        {made === undefined && (
          <FieldForm
            class="stack narrow"
            form={form}
            hasNotice={false}
            action={`/portal/endpoints/${id}/poll`}
            submit={t.polling.create}
            hint={t.polling.once}
          >
            <Input name="name" maxlength={100} hint={t.polling.nameHint} />
          </FieldForm>
        )}
      </Section>
      <Commands id={id} origin={new URL(c.req.url).origin} />
    </>,
    fault === undefined ? 200 : 422,
  );
}

/** Revoking takes two clicks: the first one only opens the form. */
const Keys: FC<{ path: string; keys: readonly KeyView[] }> = ({ path, keys }) => {
  const { polling: t } = usePortal().t;
  return (
    <LineTable
      rows={keys}
      columns={[
        [t.name, "main", ({ id, name }) => <RowName name={name ?? id} sub={name === null ? "" : id} />],
        [t.created, "wide", ({ created_at }) => <Ago at={created_at} />],
        [t.used, "", ({ last_used_at: used }) => (used === null ? t.never : <Ago at={used} />)],
        [
          <span class="hidden">{t.revoke}</span>,
          "",
          ({ id, name }) => (
            <Fold
              title={
                <>
                  {t.revoke} <span class="hidden">{name ?? id}</span>
                </>
              }
            >
              <FieldForm action={`${path}/keys/${id}/revoke`} submit={t.revoke} button="danger">
                <p class="hint">{t.revokeText}</p>
              </FieldForm>
            </Fold>
          ),
        ],
      ]}
      empty={t.none}
    />
  );
};

/** None of them has the key in its arguments, which other users of a machine can read. */
const Commands: FC<{ id: string; origin: string }> = ({ id, origin }) => {
  const { polling: t } = usePortal().t;
  const at = `${origin}/v1/destinations/${id}/poll`;
  const authorization = '-H "Authorization: Bearer $BREAKWATER_KEY"';
  const setKey = `export BREAKWATER_URL=${origin}\nread -rs BREAKWATER_KEY && export BREAKWATER_KEY`;
  const commit = `curl ${authorization} "${at}/commit" \\\n  --json '{"iterator": "default.1"}'`;
  const commands = [
    ["set-key", t.setKey, setKey],
    ["listen", t.listen, `npx -p breakwater-client breakwater listen 3000 --destination ${id}`],
    ["fetch", t.fetch, `curl ${authorization} "${at}?wait_s=30"`],
    ["commit", t.commit, commit],
  ] as const;
  return (
    <Section id="commands" title={t.commands} of="stack">
      {commands.map(([name, label, text]) => (
        <>
          <p>{label}</p>
          <Copyable id={name} label={label} text={text} />
        </>
      ))}
      <p class="hint">{t.again}</p>
    </Section>
  );
};
