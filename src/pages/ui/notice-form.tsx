/**
 * The page of a notice channel: its form, its last notice, a test, and its removal. Dashboard and portal show the same, each in
 * its words.
 */
import type { FC } from "hono/jsx";
import { type NoticeEvent, type NoticeKind, noticeEvents } from "../../core/notices.ts";
import { type PortalLanguage, portalLanguages } from "../../core/portal-access.ts";
import type { noticeChannelView } from "../../features/notices/schema.ts";
import { type Form, numberIn, textIn } from "./format.ts";
import { Options, Press, Submit } from "./parts.tsx";

type NoticeTexts = Readonly<{
  title: string;
  lede: string;
  kind: string;
  kinds: Readonly<Record<"mail" | "webhook", string>>;
  target: string;
  targetHint: string;
  kept: (target: string) => string;
  on: string;
  events: Readonly<Record<NoticeEvent, string>>;
  minutes: string;
  language: string;
  save: string;
  saved: string;
  test: string;
  tested: string;
  remove: string;
  /** Introduces the channel's own fault. */
  fault: string;
  faults: Readonly<Record<"kind" | "target" | "on" | "open_after_minutes" | "language", string>>;
}>;

export const noticeTexts: NoticeTexts = {
  title: "Notices",
  lede: "Get a notice when something is wrong with this endpoint: at most one an hour.",
  kind: "Send notices by",
  kinds: { mail: "Mail", webhook: "A webhook of your own" },
  target: "Address",
  targetHint: "The https URL of the incoming webhook, or the mail address. A URL is not shown again.",
  kept: (target) => `Currently ${target}. Leave this empty to keep it.`,
  on: "Send one when",
  events: {
    disabled: "the endpoint was paused because of its failures",
    circuit_open: "deliveries have failed for a while",
    dead: "deliveries were given up",
    recovered: "the endpoint takes events again",
  },
  minutes: "How long deliveries fail before there is a notice (minutes)",
  language: "Language of notices",
  save: "Save",
  saved: "Saved. It applies from now on.",
  test: "Send a test notice",
  tested: "The test notice was accepted.",
  remove: "Stop notices",
  fault: "The last notice was not accepted",
  faults: {
    kind: "Choose one of the list.",
    target: "Enter a public URL that begins with https://, or for mail an address such as ops@example.com.",
    on: "Choose at least one.",
    open_after_minutes: "Enter a whole number from 1 to 1,440.",
    language: "Choose one of the list.",
  },
};

/** Names that are the same in every language. */
const services = { slack: "Slack", discord: "Discord", teams: "Microsoft Teams" } as const;
const languages = { en: "English", de: "Deutsch" } as const satisfies Record<PortalLanguage, string>;

const kindName = (kind: NoticeKind, t: NoticeTexts) => ({ ...services, ...t.kinds })[kind];

export type NoticeFaults = Readonly<{ [name in keyof NoticeTexts["faults"]]?: string }>;

/** The form's input as the API takes it. */
export function noticeInput(form: Form): Readonly<Record<string, unknown>> {
  const kind = textIn(form, "kind");
  const target = textIn(form, "target");
  const minutes = numberIn(form, "open_after_minutes");
  return {
    kind,
    ...(target !== undefined && { [kind === "mail" ? "email" : "url"]: target }),
    on: noticeEvents.filter((event) => form[`on_${event}`] === "on"),
    ...(minutes !== null && { open_after_minutes: minutes }),
    language: textIn(form, "language"),
  };
}

/** Faults of the API's fields at the form's, in its words. */
export function noticeFaults(errors: readonly Readonly<{ field: string }>[], t: NoticeTexts): NoticeFaults {
  const names = errors.map(({ field }) => field.replace(/^(url|email)$/, "target").replace(/\[.*/, ""));
  return Object.fromEntries(
    names.flatMap((name) => (name in t.faults ? [[name, t.faults[name as never]]] : [])),
  );
}

type Shown = ReturnType<typeof noticeChannelView>;

type Props = Readonly<{
  t: NoticeTexts;
  /** The page of the endpoint. */
  path: string;
  /** Undefined: there is none. */
  channel: Shown | undefined;
  kinds: readonly NoticeKind[];
  /** What was typed into a form that was refused. */
  typed: Form | undefined;
  faults: NoticeFaults;
  /** Of new channels. */
  language: string;
  mayChange: boolean;
  mayTest: boolean;
}>;

export const NoticeForm: FC<Props> = ({
  t,
  path,
  channel,
  kinds,
  typed,
  faults,
  language,
  mayChange,
  mayTest,
}) => {
  const value = typed ?? valuesOf(channel, language);
  const marks = (name: keyof NoticeFaults, hint?: string) => ({
    ...(faults[name] !== undefined && { "aria-invalid": "true" as const }),
    "aria-describedby":
      [hint, faults[name] !== undefined && `${name}-fault`].filter(Boolean).join(" ") || undefined,
  });
  return (
    <section class="narrow" aria-label={t.title}>
      {channel?.fault && <p class="notice tone-bad">{`${t.fault}: ${channel.fault}`}</p>}
      {mayChange ? (
        <form class="stack" method="post" action={`${path}/notices`}>
          <div>
            <label for="kind">{t.kind}</label>
            <select id="kind" name="kind" {...marks("kind")}>
              <Options of={kinds.map((kind) => [kind, kindName(kind, t)])} chosen={value.kind} />
            </select>
            <Fault name="kind" text={faults.kind} />
          </div>
          <div>
            <label for="target">{t.target}</label>
            <input
              id="target"
              name="target"
              autocomplete="off"
              spellcheck={false}
              value={String(value.target ?? "")}
              {...marks("target", "target-hint")}
            />
            <p class="hint" id="target-hint">
              {channel === undefined ? t.targetHint : t.kept(channel.target)}
            </p>
            <Fault name="target" text={faults.target} />
          </div>
          <fieldset id="on" {...marks("on")}>
            <legend>{t.on}</legend>
            {noticeEvents.map((event) => (
              <label class="check">
                <input type="checkbox" name={`on_${event}`} checked={value[`on_${event}`] === "on"} />
                {t.events[event]}
              </label>
            ))}
            <Fault name="on" text={faults.on} />
          </fieldset>
          <div>
            <label for="open_after_minutes">{t.minutes}</label>
            <input
              type="number"
              id="open_after_minutes"
              name="open_after_minutes"
              min={1}
              max={1440}
              value={String(value.open_after_minutes ?? "")}
              {...marks("open_after_minutes")}
            />
            <Fault name="open_after_minutes" text={faults.open_after_minutes} />
          </div>
          <div>
            <label for="language">{t.language}</label>
            <select id="language" name="language" {...marks("language")}>
              <Options of={portalLanguages.map((name) => [name, languages[name]])} chosen={value.language} />
            </select>
            <Fault name="language" text={faults.language} />
          </div>
          <div class="actions">
            <Submit>{t.save}</Submit>
          </div>
        </form>
      ) : (
        channel && <p>{`${kindName(channel.kind, t)}: ${channel.target}`}</p>
      )}
      {channel !== undefined && (
        <div class="actions">
          {mayTest && <Press action={`${path}/notices/test`} label={t.test} />}
          {mayChange && <Press action={`${path}/notices/remove`} label={t.remove} />}
        </div>
      )}
    </section>
  );
};

function valuesOf(channel: Shown | undefined, language: string): Form {
  const on = channel?.on ?? noticeEvents;
  return {
    kind: channel?.kind,
    open_after_minutes: channel?.open_after_minutes ?? 10,
    language: channel?.language ?? language,
    ...Object.fromEntries(on.map((event) => [`on_${event}`, "on"])),
  };
}

const Fault: FC<{ name: string; text: string | undefined }> = ({ name, text }) =>
  text === undefined ? null : (
    <p class="fault" id={`${name}-fault`} role="alert">
      {text}
    </p>
  );
