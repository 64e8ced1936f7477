/** The deliveries of an endpoint, the newest event first, with their states as tabs; several can be sent again at once. */
import type { Child, FC } from "hono/jsx";
import { allows, type PortalAccess } from "../../core/portal-access.ts";
import { type LogPage, logStates, PickCell } from "../ui/delivery-log.tsx";
import { ClippedCell, LineTable, StateCell } from "../ui/parts.tsx";
import type { Look } from "./look.ts";
import { PortalAgo, PortalEventLabels, SectionHead } from "./parts.tsx";
import { answerText, portalDeliveryText } from "./state-text.ts";

type Props = Readonly<{
  look: Look;
  access: PortalAccess;
  /** Whether the endpoint takes test events of this visitor. */
  mayTest: boolean;
  path: string;
  page: LogPage;
  now: number;
}>;

export const DeliveryTable: FC<Props> = ({ look, access, mayTest, path, page, now }) => {
  const { t } = look;
  const mayResend = allows(access, "resend");
  return (
    <section aria-labelledby="deliveries">
      <SectionHead id="deliveries" title={t.log.title}>
        <nav class="tabs" aria-label={t.log.state}>
          {logStates.map((state) => (
            <a
              href={`${path}${state === "all" ? "" : `?state=${state}`}#deliveries`}
              {...(state === page.state && { "aria-current": "true" })}
            >
              {t.log.states[state]}
            </a>
          ))}
        </nav>
      </SectionHead>
      {page.entries.length === 0 ? (
        <p class="empty">{emptyText(look, page, mayTest)}</p>
      ) : (
        <Selectable look={look} path={path} isOn={mayResend}>
          <LineTable
            columns={[
              ...(mayResend ? [[<span class="hidden">{t.log.resendSelected}</span>, "pick"] as const] : []),
              [t.log.event, "main"],
              [t.log.state, "state-cell"],
              [t.log.attempts, "num count wide"],
              [t.log.answer, "num wide"],
              [t.log.accepted, "num time"],
            ]}
          >
            {page.entries.map((entry) => (
              <Row look={look} entry={entry} access={access} now={now} />
            ))}
          </LineTable>
        </Selectable>
      )}
      <Pager look={look} path={path} page={page} />
    </section>
  );
};

type SelectableProps = Readonly<{ look: Look; path: string; isOn: boolean; children?: Child }>;

const Selectable: FC<SelectableProps> = ({ look: { t }, path, isOn, children }) =>
  isOn ? (
    <form method="post" action={`${path}/resend`}>
      {children}
      <div class="actions">
        <label class="check scripted">
          <input type="checkbox" data-all="" data-hold="" autocomplete="off" />
          {t.log.selectAll}
        </label>
        <button type="submit">{t.log.resendSelected}</button>
      </div>
    </form>
  ) : (
    <div>{children}</div>
  );

type RowProps = Readonly<{
  look: Look;
  entry: LogPage["entries"][number];
  access: PortalAccess;
  now: number;
}>;

const Row: FC<RowProps> = ({ look, entry, access, now }) => {
  const { delivery, event } = entry;
  const { t, f } = look;
  const mayResend = allows(access, "resend");
  const { tone, label, text } = portalDeliveryText(look, delivery, now);
  const name = event?.type ?? t.log.deletedEvent;
  return (
    <tr id={delivery.id}>
      {mayResend && <PickCell entry={entry} label={t.log.select(`${name} ${delivery.event_id}`)} />}
      <ClippedCell text={`${name} ${delivery.event_id}`}>
        <a class="name" href={`/portal/deliveries/${delivery.id}`}>
          {name}
        </a>
        <code class="sub">{delivery.event_id}</code>
        {event && <PortalEventLabels look={look} access={access} event={event} />}
        {mayResend && event?.isErased === true && <span class="sub">{t.log.erased}</span>}
      </ClippedCell>
      <StateCell tone={tone} label={label} text={tone === "good" ? "" : text} />
      <td class="num wide">{f.count(delivery.attempts)}</td>
      <td class="num wide">{answerText(look, delivery)}</td>
      <td class="num time">{event ? <PortalAgo look={look} at={event.acceptedAt} now={now} /> : "–"}</td>
    </tr>
  );
};

const Pager: FC<{ look: Look; path: string; page: LogPage }> = ({
  look: { t },
  path,
  page: { state, isFirst, next },
}) => {
  const query = (before?: string) =>
    `${path}?${new URLSearchParams({ ...(state !== "all" && { state }), ...(before && { before }) })}#deliveries`;
  if (isFirst && next === undefined) return null;
  return (
    <p class="pager">
      {!isFirst && <a href={query()}>{t.log.newest}</a>}
      {next !== undefined && <a href={query(next)}>{t.log.older}</a>}
    </p>
  );
};

function emptyText({ t }: Look, { state, isFirst }: LogPage, mayTest: boolean): string {
  if (!isFirst) return t.log.noOlder;
  if (state !== "all") return t.log.emptyState;
  return mayTest ? t.log.empty : t.log.emptyReadOnly;
}
