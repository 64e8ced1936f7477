/** How programs of the visitor's fetch from a polled endpoint, and their keys: made, shown once and revoked here. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getDestination } from "../../../features/destinations/service.ts";
import { type KeyView, newPollKey } from "../../../features/keys/schema.ts";
import { createPollKey, getPollKeys, removePollKey } from "../../../features/keys/service.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { textIn } from "../../ui/format.ts";
import { Crumb, LineTable, Submit } from "../../ui/parts.tsx";
import { attempt, attemptWith } from "../../ui/services.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import {
  Copy,
  PortalAgo,
  PortalField,
  PortalOutcomeNotice,
  portalOutcomeAt,
  SectionHead,
} from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";

const POLL = "/portal/endpoints/:id/poll";

export function registerPortalPolling(app: Hono<PortalEnv>): void {
  app.get(POLL, may("manage_poll_keys"), (c) => showPolling(c, c.req.param("id")));

  app.post(POLL, may("manage_poll_keys"), async (c) => {
    const id = c.req.param("id");
    const caller = callerInPortal(c);
    const name = textIn(await c.req.parseBody(), "name");
    const created = await attemptWith(caller, newPollKey, { name }, (input) =>
      createPollKey(caller, { destination: id, input }),
    );
    if (created.kind === "ok") return showPolling(c, id, { made: created.value.key });
    const { t } = c.get("look");
    if (created.kind === "invalid") return showPolling(c, id, { name, fault: t.polling.nameFault });
    if (created.kind === "conflict") return showPolling(c, id, { name, fault: t.polling.full });
    return showRefused(c, created, `/portal/endpoints/${id}/poll`);
  });

  app.post(`${POLL}/keys/:key/revoke`, may("manage_poll_keys"), async (c) => {
    const { id, key } = c.req.param();
    const caller = callerInPortal(c);
    const path = `/portal/endpoints/${id}/poll`;
    const removed = await attempt(caller, () => removePollKey(caller, { destination: id, id: key }));
    return removed.kind === "ok"
      ? c.redirect(portalOutcomeAt(path, "key-revoked"), 303)
      : showRefused(c, removed, path);
  });
}

/** `made`: a key that has just been created. Otherwise the form, with what was typed and what is wrong with it. */
type Shown = Readonly<{ made?: string; name?: string | undefined; fault?: string }>;

async function showPolling(c: PortalContext, id: string, shown: Shown = {}) {
  const caller = callerInPortal(c);
  const look = c.get("look");
  const [found, keys] = await Promise.all([getDestination(caller, id), getPollKeys(caller, id)]);
  if (found.kind !== "ok" || keys.kind !== "ok") return showPortalNotFound(c);
  return showPortalPage(
    c,
    { title: look.t.polling.title, place: "endpoints" },
    <>
      <section>
        <Crumb href={`/portal/endpoints/${id}`}>{nameOf(found.value)}</Crumb>
        <h1>{shown.made === undefined ? look.t.polling.title : look.t.polling.createdTitle}</h1>
        <p class="lede">{shown.made === undefined ? look.t.polling.lede : look.t.polling.createdLede}</p>
      </section>
      <PortalOutcomeNotice look={look} name={c.req.query("done")} />
      {shown.made !== undefined && <Copy look={look} id="key" label={look.t.polling.key} text={shown.made} />}
      <Keys look={look} id={id} keys={keys.value} shown={shown} now={caller.services.now()} />
      <Commands look={look} id={id} origin={new URL(c.req.url).origin} />
    </>,
    shown.fault === undefined ? 200 : 422,
  );
}

type KeysProps = Readonly<{
  look: Look;
  id: string;
  keys: readonly KeyView[];
  shown: Shown;
  now: number;
}>;

const Keys: FC<KeysProps> = ({ look, id, keys, shown: { made, name, fault }, now }) => {
  const { t } = look;
  const path = `/portal/endpoints/${id}/poll`;
  return (
    <section class="stack" aria-labelledby="keys">
      <SectionHead id="keys" title={t.polling.keys} />
      {keys.length === 0 ? (
        <p class="empty">{t.polling.none}</p>
      ) : (
        <LineTable
          columns={[
            [t.polling.name, "main"],
            [t.polling.created, "wide"],
            [t.polling.used],
            [<span class="hidden">{t.polling.revoke}</span>],
          ]}
        >
          {keys.map((key) => (
            <KeyRow look={look} path={path} shown={key} now={now} />
          ))}
        </LineTable>
      )}
      {made === undefined && (
        <form class="stack narrow" method="post" action={path}>
          <PortalField
            name="name"
            label={t.polling.name}
            hint={t.polling.nameHint}
            fault={fault}
            control={(attributes) => (
              <input maxlength={100} value={name ?? ""} autocomplete="off" {...attributes} />
            )}
          />
          <div class="actions">
            <Submit>{t.polling.create}</Submit>
            <span class="hint">{t.polling.once}</span>
          </div>
        </form>
      )}
    </section>
  );
};

type RowProps = Readonly<{ look: Look; path: string; shown: KeyView; now: number }>;

/** Revoking takes two clicks: the first one only opens the form. */
const KeyRow: FC<RowProps> = ({ look, path, shown: { id, name, created_at, last_used_at: used }, now }) => {
  const { t } = look;
  return (
    <tr>
      <td class="break">
        {name ?? id}
        {name !== null && <span class="sub">{id}</span>}
      </td>
      <td class="wide">
        <PortalAgo look={look} at={Date.parse(created_at)} now={now} />
      </td>
      <td>{used === null ? t.polling.never : <PortalAgo look={look} at={Date.parse(used)} now={now} />}</td>
      <td>
        <details>
          <summary>
            {t.polling.revoke} <span class="hidden">{name ?? id}</span>
          </summary>
          <form class="stack" method="post" action={`${path}/keys/${id}/revoke`}>
            <p class="hint">{t.polling.revokeText}</p>
            <button type="submit" class="danger">
              {t.polling.revoke}
            </button>
          </form>
        </details>
      </td>
    </tr>
  );
};

/** None of them has the key in its arguments, which other users of a machine can read. */
const Commands: FC<{ look: Look; id: string; origin: string }> = ({ look, id, origin }) => {
  const { t } = look;
  const at = `${origin}/v1/destinations/${id}/poll`;
  const authorization = '-H "Authorization: Bearer $BREAKWATER_KEY"';
  const commands = [
    [
      "set-key",
      t.polling.setKey,
      `export BREAKWATER_URL=${origin}\nread -rs BREAKWATER_KEY && export BREAKWATER_KEY`,
    ],
    ["listen", t.polling.listen, `npx -p breakwater-client breakwater listen 3000 --destination ${id}`],
    ["fetch", t.polling.fetch, `curl ${authorization} "${at}?wait_s=30"`],
    [
      "commit",
      t.polling.commit,
      `curl ${authorization} "${at}/commit" \\\n  --json '{"iterator": "default.1"}'`,
    ],
  ] as const;
  return (
    <section class="stack" aria-labelledby="commands">
      <SectionHead id="commands" title={t.polling.commands} />
      {commands.map(([name, label, text]) => (
        <>
          <p>{label}</p>
          <Copy look={look} id={name} label={label} text={text} />
        </>
      ))}
      <p class="hint">{t.polling.again}</p>
    </section>
  );
};
