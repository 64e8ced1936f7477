/** Small components that several pages share. */
import type { Child, FC } from "hono/jsx";
import type { Refused } from "../../core/result.ts";
import { type StatsWindow, windows } from "../../core/rollups.ts";
import { isoTime } from "../../time.ts";
import { destinationLabels, type FormFields, placeErrors, replayFields } from "./form-fields.ts";
import { addressOf, type Query } from "./format.ts";
import { usePage } from "./page.tsx";
import type { StateText, Tone } from "./status-text.ts";

type SectionProps = Readonly<{
  /** The id of the heading, unique on the page. */
  id: string;
  title: Child;
  of?: string;
  aside?: Child;
  children?: Child;
}>;
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
  crumb?: readonly [href: string, title: string] | undefined;
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
export const Crumb: FC<{ href: string; children?: Child }> = ({ href, children }) => (
  <p class="crumb">
    <a href={href}>{children}</a>
  </p>
);
export const Submit: FC<{ children?: Child }> = ({ children }) => (
  <button type="submit" class="main">
    {children}
  </button>
);
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

/** Texts that an input suggests; others can be typed. */
export const DataList: FC<{ id: string; of: readonly string[] }> = ({ id, of }) => (
  <datalist id={id}>
    {of.map((text) => (
      <option value={text} />
    ))}
  </datalist>
);

type HiddenProps = Readonly<Record<string, string | undefined>>;

/** Values that a form sends besides those that are typed. */
export const Hidden: FC<{ of: HiddenProps }> = ({ of }) => (
  <>
    {Object.entries(of).map(
      ([name, value]) =>
        value !== undefined && <input type="hidden" name={name} value={value} autocomplete="off" />,
    )}
  </>
);

type CheckProps = Readonly<{
  label: Child;
  type?: "checkbox" | "radio";
  name?: string;
  value?: string;
  checked?: boolean;
  required?: boolean;
  "aria-invalid"?: "true";
}>;
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
export const Select: FC<SelectProps> = ({ label, name, of, chosen }) => (
  <label>
    {label}
    <select name={name}>
      <Options of={of} chosen={chosen} />
    </select>
  </label>
);
type PressProps = Readonly<{
  action: string;
  label: string;
  /** The values that it sends. */
  hidden?: HiddenProps;
  of?: "main" | "tiny" | "plain";
  /** A longer label for screen readers, where others on the page have the same. */
  title?: string;
}>;

export const Press: FC<PressProps> = ({ action, label, hidden = {}, of, title }) => (
  <form method="post" action={action}>
    <Hidden of={hidden} />
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
  /** Parameters that every page of the list has in its address. */
  query?: Query;
  /** The cursor of the next page; absent on the last page. */
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

type Figure = Readonly<{
  unit?: string;
  isBad?: boolean | undefined;
  /** The list of the counted objects. */
  href?: string;
}>;
export const FigureList: FC<{ of: readonly (readonly [name: string, value: string, about?: Figure])[] }> = ({
  of,
}) => (
  <dl class="figures">
    {of.map(([name, value, { unit, isBad, href } = {}]) => (
      <div class={isBad ? "is-bad" : ""}>
        <dt>{name}</dt>
        <dd>
          {href === undefined ? value : <a href={href}>{value}</a>}
          {unit !== undefined && <small>{unit}</small>}
        </dd>
      </div>
    ))}
  </dl>
);

/** A state in one or two words with a coloured dot; the words alone say it too. */
export const StateLabel: FC<{ tone: Tone; children?: Child }> = ({ tone, children }) => (
  <span class={`state nowrap tone-${tone}`}>{children}</span>
);

/** A state in a table, and the sentence about it if one is given. */
type Shown = Pick<StateText, "tone" | "label"> & Partial<StateText>;

/**
 * A column of a table: its heading, the classes that give it its width and say when it is left out (style.ts), and what it shows
 * of a row.
 */
export type Column<T> = readonly [
  title: Child,
  of: string,
  cell: (row: T) => Child | Shown,
  /** The tooltip of a cell of one line, whose end is cut off where it does not fit; `true` where that is its text. */
  tooltip?: true | ((row: T) => string) | undefined,
  /** Whether the table is sorted by it. */
  sort?: "ascending" | "descending" | undefined,
];

/** Columns of which some may be left out. */
export type TableColumns<T> = readonly (Column<T> | false | undefined)[];

type TableProps<T> = Readonly<{
  columns: TableColumns<NoInfer<T>>;
  rows: readonly T[];
  idOf?: (row: T) => string;
  /** In place of a table without rows. */
  empty?: Child;
}>;

/** A table whose rows are one line each. */
export const LineTable = <T,>({ columns, rows, idOf, empty }: TableProps<T>) =>
  empty !== undefined && rows.length === 0 ? (
    <p class="empty">{empty}</p>
  ) : (
    <table class="lines">
      <thead>
        <tr>
          {columns.map(
            (column) =>
              column && (
                <th scope="col" class={column[1] || undefined} aria-sort={column[4]}>
                  {column[0]}
                </th>
              ),
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <LineRow columns={columns} row={row} id={idOf?.(row)} />
        ))}
      </tbody>
    </table>
  );

type RowProps<T> = Readonly<{ columns: TableColumns<T>; row: T; id?: string | undefined }>;

export const LineRow = <T,>({ columns, row, id }: RowProps<T>) => (
  <tr id={id}>
    {columns.map((column) => {
      if (!column) return null;
      const [, of, cellOf, tooltip] = column;
      const cell = cellOf(row);
      if (isState(cell)) return <Line of={of} text={cell.text || cell.label} line={<State of={cell} />} />;
      if (tooltip === undefined) return <td class={of || undefined}>{cell}</td>;
      return <Line of={of} text={tooltip === true ? String(cell) : tooltip(row)} line={cell} />;
    })}
  </tr>
);

function isState(cell: Child | Shown): cell is Shown {
  return typeof cell === "object" && cell !== null && "tone" in cell;
}

const Line: FC<{ of: string; text: string; line: Child }> = ({ of, text, line }) => (
  <td class={`clip ${of}`.trim()} title={text}>
    <div class="line">{line}</div>
  </td>
);

const State: FC<{ of: Shown }> = ({ of: { tone, label, text = "" } }) => (
  <>
    <StateLabel tone={tone}>{label}</StateLabel>
    {text !== "" && <span class="sub">{text.startsWith(`${label} `) ? text.slice(label.length) : text}</span>}
  </>
);

/** A healthy state needs no text. */
export function sparing({ tone, label, text }: Shown): Shown {
  return tone === "good" ? { tone, label } : { tone, label, ...(text !== undefined && { text }) };
}

type RowNameProps = Readonly<{ name: string; href?: string | undefined; sub?: string | undefined }>;

/** The name of a row, which leads to its page, with a remark. */
export const RowName: FC<RowNameProps> = ({ name, href, sub = "" }) => (
  <>
    {href === undefined ? (
      name
    ) : (
      <a class="name" href={href}>
        {name}
      </a>
    )}
    {sub !== "" && <span class="sub">{sub}</span>}
  </>
);

type FactsProps = Readonly<{ rows: readonly (readonly [name: Child, value: Child] | false)[] }>;
export const Facts: FC<FactsProps> = ({ rows }) => (
  <table class="compare">
    <tbody>
      {rows.map(
        (row) =>
          row && (
            <tr>
              <th scope="row">{row[0]}</th>
              <td class="break">{row[1]}</td>
            </tr>
          ),
      )}
    </tbody>
  </table>
);

type CardProps = Readonly<{
  /** The id of the heading, unique on the page. */
  id: string;
  title: Child;
  aside?: Child;
  children?: Child;
}>;

/** One of several objects on a page, under its name. */
export const Card: FC<CardProps> = ({ id, title, aside, children }) => (
  <article class="delivery" aria-labelledby={id}>
    <div class="head">
      <h2 id={id}>{title}</h2>
      {aside}
    </div>
    <div class="stack">{children}</div>
  </article>
);

/** Content that a click opens. */
export const Fold: FC<{ title: Child; open?: boolean; children?: Child }> = ({ title, open, children }) => (
  <details open={open}>
    <summary>{title}</summary>
    {children}
  </details>
);

/** Faults of several objects, each under its name. */
export const FaultList: FC<{ faults: readonly (readonly [name: string, text: string])[] }> = ({ faults }) => (
  <ul class="log">
    {faults.map(([name, text]) => (
      <li>
        <span class="soft">{name}</span>
        <span class="break">{text}</span>
      </li>
    ))}
  </ul>
);

type BannerProps = Readonly<{ label: string; tone: Tone; title: Child; children?: Child }>;

/** The state that a page is about: in a few words, with its consequences. */
export const Banner: FC<BannerProps> = ({ label, tone, title, children }) => (
  <section class={`status tone-${tone}`} aria-label={label}>
    <p>{title}</p>
    {children}
  </section>
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

/** The result of an action. The address names it, but never contains its text. */
export const OutcomeNotice: FC<{ name: string | undefined }> = ({ name = "" }) => {
  const { done } = usePage().t;
  return Object.hasOwn(done, name) ? <output class="notice tone-good">{done[name]}</output> : null;
};

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
  /** The consequences, in whole sentences. */
  what: readonly string[];
  action: string;
  verb: string;
  back: string;
}>;
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
