/** Small components that several pages share. */
import type { Child, FC } from "hono/jsx";
import type { Refused } from "../../core/result.ts";
import { type StatsWindow, windows } from "../../core/rollups.ts";
import { isoTime } from "../../time.ts";
import { destinationLabels, type FormFields, placeErrors, replayFields } from "./form-fields.ts";
import { addressOf, type Query } from "./format.ts";
import { noticeTexts } from "./kit-texts.ts";
import { usePage } from "./page.tsx";
import type { Tone } from "./status-text.ts";

type SectionProps = Readonly<{
  /** The id of the heading, unique on the page. */
  id: string;
  title: Child;
  of?: string;
  /** Beside the heading. */
  aside?: Child;
  children?: Child;
}>;

/** A section under a heading. */
export const Section: FC<SectionProps> = ({ id, title, of, aside, children }) => (
  <section class={of} aria-labelledby={id}>
    <div class="head">
      <h2 id={id}>{title}</h2>
      {aside}
    </div>
    {children}
  </section>
);

type TopProps = Readonly<{
  /** The page that it belongs to. */
  crumb?: readonly [href: string, title: string];
  title: Child;
  lede?: Child;
  of?: string;
  children?: Child;
}>;

/** The beginning of a page: its heading, with a sentence below it. */
export const Top: FC<TopProps> = ({ crumb, title, lede, of, children }) => (
  <section class={of}>
    {crumb && <Crumb href={crumb[0]}>{crumb[1]}</Crumb>}
    <h1>{title}</h1>
    {lede && <p class="lede">{lede}</p>}
    {children}
  </section>
);

/** The link to the page that a page belongs to. */
export const Crumb: FC<{ href: string; children?: Child }> = ({ href, children }) => (
  <p class="crumb">
    <a href={href}>{children}</a>
  </p>
);

/** The main button of a form. */
export const Submit: FC<{ children?: Child }> = ({ children }) => (
  <button type="submit" class="main">
    {children}
  </button>
);

/** A link that looks like a button. */
export const ButtonLink: FC<{ href: string; children?: Child }> = ({ href, children }) => (
  <a class="button" href={href}>
    {children}
  </a>
);

type OptionsProps = Readonly<{ of: readonly (readonly [value: string, text: string])[]; chosen?: unknown }>;

/** The options of a select. @param of each with its text, in this order */
export const Options: FC<OptionsProps> = ({ of, chosen }) => (
  <>
    {of.map(([value, text]) => (
      <option value={value} selected={value === chosen}>
        {text}
      </option>
    ))}
  </>
);

type PressProps = Readonly<{
  action: string;
  label: string;
  /** The class of the button. */
  of?: "main" | "tiny" | "plain";
  /** A longer label for screen readers, where others on the page have the same. */
  title?: string;
}>;

type CheckProps = Readonly<{
  label: Child;
  type?: "checkbox" | "radio";
  name?: string;
  value?: string;
  checked?: boolean;
  required?: boolean;
  "aria-invalid"?: "true";
}>;

/** A box beside its label. */
export const CheckBox: FC<CheckProps> = ({ label, type = "checkbox", ...attributes }) => (
  <label class="check">
    <input type={type} {...attributes} autocomplete="off" />
    {label}
  </label>
);

/** Selects all rows of the table in its form, by the script. */
export const CheckAll: FC<{ label: string }> = ({ label }) => (
  <label class="check scripted">
    <input type="checkbox" data-all="" data-hold="" autocomplete="off" />
    {label}
  </label>
);

type SelectProps = Readonly<{ label: string; name: string; chosen?: unknown }> & Pick<OptionsProps, "of">;

/** A select under its label. */
export const Select: FC<SelectProps> = ({ label, name, of, chosen }) => (
  <label>
    {label}
    <select name={name}>
      <Options of={of} chosen={chosen} />
    </select>
  </label>
);

/** A form that is one button. */
export const Press: FC<PressProps> = ({ action, label, of, title }) => (
  <form method="post" action={action}>
    <button type="submit" class={of} aria-label={title}>
      {label}
    </button>
  </form>
);

/** Tabs that are links to other views of a page. @param of the address, the text, and whether it is shown */
export const Tabs: FC<{
  label: string;
  of: readonly (readonly [string, string, boolean])[];
  class?: string;
}> = ({ label, of, class: more = "" }) => (
  <nav class={`tabs ${more}`.trim()} aria-label={label}>
    {of.map(([href, text, isCurrent]) => (
      <a href={href} {...(isCurrent && { "aria-current": "true" })}>
        {text}
      </a>
    ))}
  </nav>
);

type PagerProps = Readonly<{
  path: string;
  /** What every page of the list has in its address. */
  query?: Query;
  /** Where it goes on; absent on the last page. */
  next: Query | false | "" | undefined;
  isFirst: boolean;
  /** The newest are first. */
  isLog?: boolean;
  anchor?: string;
  children?: Child;
}>;

/** Links to the first page of a list and to the next one. */
export const Pager: FC<PagerProps> = ({ path, query = {}, next, isFirst, isLog, anchor = "", children }) => {
  const { t } = usePage();
  const at = (more: Query = {}) => `${addressOf(path, { ...query, ...more })}${anchor}`;
  if (isFirst && !next && !children) return null;
  return (
    <nav class="pager" aria-label={t.pager.label}>
      {children}
      {!isFirst && <a href={at()}>{isLog ? t.log.newest : t.pager.first}</a>}
      {next && <a href={at(next)}>{isLog ? t.log.older : t.pager.next}</a>}
    </nav>
  );
};

/** A number with its name, in a `dl.figures`. `href`: where what it counts is listed. */
export const Figure: FC<{
  name: string;
  value: string;
  unit?: string;
  tone?: "bad" | "warn" | undefined;
  href?: string | undefined;
}> = ({ name, value, unit, tone, href }) => (
  <div class={tone ? `is-${tone}` : ""}>
    <dt>{name}</dt>
    <dd>
      {href === undefined ? value : <a href={href}>{value}</a>}
      {unit !== undefined && <small>{unit}</small>}
    </dd>
  </div>
);

/** A state in one or two words with a coloured dot; the words alone say it too. */
export const StateLabel: FC<{ tone: Tone; children?: Child }> = ({ tone, children }) => (
  <span class={`state nowrap tone-${tone}`}>{children}</span>
);

/** A column's heading, and the classes that give it its width and say when it is left out (style.ts). */
type ColumnHead = readonly [title: Child, of?: string];

/** A table whose rows are one line each. @param empty in its place where there are no rows */
export const LineTable: FC<{ columns: readonly ColumnHead[]; empty?: Child; children?: Child }> = ({
  columns,
  empty,
  children,
}) =>
  empty !== undefined && [children ?? []].flat().length === 0 ? (
    <p class="empty">{empty}</p>
  ) : (
    <table class="lines">
      <thead>
        <tr>
          {columns.map(([title, of]) => (
            <th scope="col" class={of}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );

/** A table cell of one line. Its end is cut off where it does not fit; `text` is the tooltip with all of it. */
export const ClippedCell: FC<{ text: string; of?: string; children?: Child }> = ({ text, of, children }) => (
  <td class={of === undefined ? "clip" : `clip ${of}`} title={text}>
    <div class="line">{children}</div>
  </td>
);

/** A table cell with a state, and the sentence about it where one is given. */
export const StateCell: FC<{ tone: Tone; label: string; text?: string | undefined }> = ({
  tone,
  label,
  text = "",
}) => (
  <ClippedCell text={text || label} of="state-cell">
    <StateLabel tone={tone}>{label}</StateLabel>
    {text !== "" && <span class="sub">{text.startsWith(`${label} `) ? text.slice(label.length) : text}</span>}
  </ClippedCell>
);

/** How long ago, with the exact time as a tooltip. */
export const Ago: FC<{ at: number | string }> = ({ at }) => {
  const { f, now } = usePage();
  const time = typeof at === "string" ? Date.parse(at) : at;
  return (
    <time class="nowrap" datetime={isoTime(time)} title={f.exact(time)}>
      {f.ago(time, now)}
    </time>
  );
};

/** Lines of a text that are shown at once. */
const LINES_SHOWN = 18;

type CopyableProps = Readonly<{
  /** Unique on the page. */
  id: string;
  text: string;
  label: string;
}>;

/** Text with a button that copies it. Lines after the first 18 are folded. */
export const Copyable: FC<CopyableProps> = ({ id, text, label }) => {
  const { t, f } = usePage();
  const [shown, folded] = foldedLines(text);
  return (
    <section class="copy" aria-label={label}>
      <pre tabindex={0}>
        <code id={id}>{shown}</code>
      </pre>
      {folded !== undefined && (
        <details>
          <summary>{t.moreLines(f.count(folded.split("\n").length))}</summary>
          <pre tabindex={0}>
            <code id={`${id}-more`}>{folded}</code>
          </pre>
        </details>
      )}
      <button
        class="tiny"
        type="button"
        data-copy={folded === undefined ? id : `${id} ${id}-more`}
        aria-label={`${t.copy}: ${label}`}
      >
        {t.copy}
      </button>
    </section>
  );
};

/** The beginning of a text, and the rest where there is much more. */
function foldedLines(text: string): readonly [shown: string, folded?: string] {
  const lines = text.split("\n");
  if (lines.length <= LINES_SHOWN + 2) return [text];
  return [lines.slice(0, LINES_SHOWN).join("\n"), lines.slice(LINES_SHOWN).join("\n")];
}

/** Text in which backticks mark code. */
export const Prose: FC<{ text: string }> = ({ text }) => (
  <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code>{part}</code> : part))}</>
);

const outcomes = {
  "created-before":
    "This form was sent twice. It created this destination the first time, and nothing the second time. To create another destination, open a new form.",
  "rotated-before":
    "This form was sent twice. The secret was rotated the first time only, and the new secret was shown once. If you did not save it, rotate the secret again.",
  paused: "Paused. New events join the backlog until you resume the destination.",
  resumed: "Resumed. The backlog is sent now, starting with one attempt at a time.",
  "hold-cleared": "Hold cleared. The backlog is sent now, starting with one attempt at a time.",
  saved: noticeTexts.saved,
  changed: "Changes saved. They apply from the next batch.",
  unchanged: "Nothing was changed.",
  deleted: "Destination deleted. Its unfinished deliveries are cancelled.",
  revoked: "Key revoked. Within a minute it is refused everywhere.",
  settings: "Settings saved.",
  "type-saved": "Event type saved. It applies to the next event posted.",
  "types-imported": "Event types imported.",
  "type-archived": "Event type archived. Its events are still accepted and validated.",
  "type-restored": "Event type restored.",
  "type-deleted": "Event type deleted. Its events are no longer validated.",
  "version-published": "Version published. Events that are posted from now on have it.",
  "version-dated": "Dates saved.",
  "group-limits": "Limits saved. They apply within ten seconds.",
  "action-approved": "Approved. The answer of the tool is below.",
  "action-refused": "Refused. Nothing is changed.",
  "group-reset": "The group is tried again, from one attempt at a time.",
  limits: "Limits saved. They apply from the next batch.",
  policy: "Retry policy saved. It applies from the next attempt.",
  retried: "The delivery is in the backlog. It is sent again as soon as its destination has capacity.",
  "tried-now": "The destination allows an attempt. It is made when the delivery's turn in the backlog comes.",
  "tried-now-probe":
    "The delivery may be sent as the circuit's probe. If it succeeds, the circuit closes. If it fails, the circuit opens for longer.",
  "delivery-cancelled": "Cancelled. No more attempts are made. You can send it again later.",
  "delivery-skipped": "Skipped. The delivery stays dead, and its key goes on with the next one.",
  "waiting-cancelled": "The waiting deliveries are cancelled. You can send each again from its event's page.",
  "waiting-cancelled-partly": "Some of the waiting deliveries are cancelled. Repeat to cancel the rest.",
  replaying: "Replay started.",
  "replay-paused": "Replay paused.",
  "replay-resumed": "Replay resumed.",
  "replay-cancelled": "Replay cancelled. Deliveries already in the backlog are still sent.",
} as const;

/** The result of an action. The address names it, but never contains its text. */
export type ActionOutcome = keyof typeof outcomes;

/** Where to redirect to after an action, so that reloading the page does not repeat it. */
export function outcomeAt(path: string, outcome: ActionOutcome, anchor = ""): string {
  return `${path}?done=${outcome}${anchor}`;
}

export const OutcomeNotice: FC<{ name: string | undefined }> = ({ name }) =>
  name !== undefined && Object.hasOwn(outcomes, name) ? (
    <output class="notice tone-good">{outcomes[name as ActionOutcome]}</output>
  ) : null;

/** Why an action was refused, field by field, in the words of its form. */
export const RefusedNotice: FC<{ refused: Refused; fields?: FormFields }> = ({
  refused: { detail, errors = [] },
  fields = { ...replayFields, ...destinationLabels },
}) => (
  <div class="notice tone-bad break" role="alert">
    {errors.length === 0 ? (
      <p>{`${detail}.`.replace(/\.\.$/, ".")}</p>
    ) : (
      <ul>
        {placeErrors(errors, fields).map(({ text }) => (
          <li>{text}</li>
        ))}
      </ul>
    )}
  </div>
);

type ConfirmationProps = Readonly<{
  title: string;
  /** What will happen, in whole sentences. */
  what: readonly string[];
  action: string;
  /** The button's action. */
  verb: string;
  back: string;
}>;

/** Asks before something that cannot be undone. */
export const Confirmation: FC<ConfirmationProps> = ({ title, what, action, verb, back }) => (
  <section class="narrow">
    <h1>{title}</h1>
    <div class="stack">
      {what.map((sentence) => (
        <p>{sentence}</p>
      ))}
      <form class="actions" method="post" action={action}>
        <button type="submit" class="main bad">
          {verb}
        </button>
        <ButtonLink href={back}>Cancel</ButtonLink>
      </form>
    </div>
  </section>
);

type WindowText = Readonly<{ short: string; long: string; each: string }>;

export const windowTexts: Readonly<Record<StatsWindow, WindowText>> = {
  "15m": { short: "15 min", long: "15 minutes", each: "per minute" },
  "1h": { short: "1 h", long: "hour", each: "per minute" },
  "24h": { short: "24 h", long: "24 hours", each: "per hour" },
  "7d": { short: "7 d", long: "7 days", each: "per hour" },
};

/** The window of that name, or the shortest one. */
export function windowNamed(name: string | undefined): StatsWindow {
  return windows.find((window) => window === name) ?? "15m";
}

/** Links to the same page over other windows; `at` has the address of each, and of the shortest one without a name. */
export const WindowTabs: FC<{ at: (window?: StatsWindow) => string; current: StatsWindow }> = ({
  at,
  current,
}) => (
  <Tabs
    label="Time range"
    of={windows.map((window) => {
      const { short } = windowTexts[window];
      return [at(window === "15m" ? undefined : window), short, window === current] as const;
    })}
  />
);
