/** The page of a notice channel: its form, its last notice, a test, and its removal. */
import type { Context, Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import { type NoticeKind, noticeEvents } from "../../core/notices.ts";
import { type PortalLanguage, portalLanguages } from "../../core/portal-access.ts";
import type { Refused } from "../../core/result.ts";
import { noticeKindsOf } from "../../features/notices/channel.ts";
import { newNoticeChannel, type noticeChannelView } from "../../features/notices/schema.ts";
import {
  getNoticeChannel,
  removeNoticeChannel,
  setNoticeChannel,
  testNoticeChannel,
} from "../../features/notices/service.ts";
import { nameOf } from "./destination-table.tsx";
import { type FormState, GroupField, Input, markOf, PostForm } from "./fields.tsx";
import { fieldsNamed } from "./form-fields.ts";
import { type Form, numberIn, textIn } from "./format.ts";
import type { KitTexts } from "./kit-texts.ts";
import { usePage } from "./page.tsx";
import { CheckBox, Press, Top } from "./parts.tsx";
import { attempt, attemptWith } from "./services.ts";
import { formOf, pathsOf, type Surface } from "./surface.ts";

type Shown = Readonly<{
  typed?: Form;
  refused?: Refused;
  tested?: Readonly<{ delivered: boolean; fault: string | null }>;
}>;

export function registerNoticePages<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { callerOf, find, may, showPage, showMissing, showRefused, viewOf } = surface;
  const { route, idIn, home, path } = pathsOf(surface, "notices");

  app.post(route, may("change_endpoint"));
  app.post(`${route}/remove`, may("change_endpoint"));
  app.post(`${route}/test`, may("send_test"));

  app.get(route, (c) => show(c));

  app.post(route, async (c) => {
    const typed = await formOf(c);
    const set = await attemptWith(callerOf(c), newNoticeChannel, noticeInput(typed), (caller, channel) =>
      setNoticeChannel(caller, { id: idIn(c), channel, requestUrl: c.req.url }),
    );
    if (set.kind === "ok") return c.redirect(`${home(c)}?done=saved`, 303);
    return set.kind === "invalid" ? show(c, { typed, refused: set }) : showRefused(c, set, path(c));
  });

  app.post(`${route}/remove`, async (c) => {
    const removed = await attempt(callerOf(c), removeNoticeChannel, idIn(c));
    return removed.kind === "ok"
      ? c.redirect(`${home(c)}?done=saved`, 303)
      : showRefused(c, removed, path(c));
  });

  app.post(`${route}/test`, async (c) => {
    const tested = await attempt(callerOf(c), testNoticeChannel, idIn(c));
    return tested.kind === "ok" ? show(c, { tested: tested.value }) : showRefused(c, tested, path(c));
  });

  async function show(c: Context<E>, { typed, refused, tested }: Shown = {}) {
    const caller = callerOf(c);
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const stored = await getNoticeChannel(caller, idIn(c));
    const channel = stored.kind === "ok" ? stored.value : undefined;
    const { t, language } = viewOf(c);
    const { title, lede, tested: accepted, fault } = t.notices;
    const form = noticeState(typed ?? valuesOf(channel, language), t.notices, refused);
    return showPage(
      c,
      { title, refused },
      <>
        <Top crumb={[home(c), nameOf(found.value)]} title={title} lede={lede(found.value.tenant)} />
        {tested && (
          <output class={`notice tone-${tested.delivered ? "good" : "bad"}`}>
            {tested.delivered ? accepted : `${fault}: ${tested.fault}`}
          </output>
        )}
        <NoticeForm path={path(c)} channel={channel} kinds={noticeKindsOf(caller.services)} form={form} />
      </>,
    );
  }
}

type NoticeTexts = KitTexts["notices"];

/** Names that are the same in every language. */
const services = { slack: "Slack", discord: "Discord", teams: "Microsoft Teams" } as const;
const languages = { en: "English", de: "Deutsch" } as const satisfies Record<PortalLanguage, string>;

const kindName = (kind: NoticeKind, t: NoticeTexts) => ({ ...services, ...t.kinds })[kind];

/** The form's input as the API takes it. */
function noticeInput(form: Form): Readonly<Record<string, unknown>> {
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

/** Faults of the API's fields are at the form's, in its words. */
function noticeState(values: Form, t: NoticeTexts, refused?: Refused): FormState {
  const { kind, target, on, minutes, language } = t;
  const labels = fieldsNamed({ kind, target, on, open_after_minutes: minutes, language });
  const texts: Readonly<Record<string, string>> = t.faults;
  const errors = (refused?.errors ?? []).flatMap(({ field }) => {
    const input = field.replace(/^(url|email)$/, "target").replace(/\[.*/, "");
    const text = texts[input];
    return text === undefined ? [] : [{ input, label: "", text }];
  });
  return { values, labels, errors };
}

type NoticeShown = ReturnType<typeof noticeChannelView>;

type FormProps = Readonly<{
  path: string;
  channel: NoticeShown | undefined;
  kinds: readonly NoticeKind[];
  form: FormState;
}>;

const NoticeForm: FC<FormProps> = ({ path, channel, kinds, form }) => {
  const { mayCall, t: texts } = usePage();
  const t = texts.notices;
  const mayChange = mayCall(setNoticeChannel);
  return (
    <section class="narrow" aria-label={t.title}>
      {channel?.fault && <p class="notice tone-bad">{`${t.fault}: ${channel.fault}`}</p>}
      {mayChange ? (
        <PostForm action={path} submit={t.save}>
          <Input
            kind="choice"
            form={form}
            name="kind"
            options={kinds.map((kind) => [kind, kindName(kind, t)])}
          />
          <Input
            form={form}
            name="target"
            hint={channel === undefined ? t.targetHint : t.kept(channel.target)}
          />
          <GroupField form={form} name="on">
            {noticeEvents.map((event, i) => (
              <CheckBox
                name={`on_${event}`}
                checked={form.values[`on_${event}`] === "on"}
                label={t.events[event]}
                {...(i === 0 && markOf(form, "on"))}
              />
            ))}
          </GroupField>
          <Input form={form} name="open_after_minutes" kind="number" range={{ min: 1, max: 1440 }} />
          <Input
            kind="choice"
            form={form}
            name="language"
            options={portalLanguages.map((name) => [name, languages[name]])}
          />
        </PostForm>
      ) : (
        channel && <p>{`${kindName(channel.kind, t)}: ${channel.target}`}</p>
      )}
      {channel !== undefined && (
        <div class="actions">
          {mayCall(testNoticeChannel) && <Press action={`${path}/test`} label={t.test} />}
          {mayChange && <Press action={`${path}/remove`} label={t.remove} />}
        </div>
      )}
    </section>
  );
};

function valuesOf(channel: NoticeShown | undefined, language: PortalLanguage): Form {
  const on = channel?.on ?? noticeEvents;
  return {
    kind: channel?.kind,
    open_after_minutes: channel?.open_after_minutes ?? 10,
    language: channel?.language ?? language,
    ...Object.fromEntries(on.map((event) => [`on_${event}`, "on"])),
  };
}
