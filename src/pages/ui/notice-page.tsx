/** The page of a notice channel: its form, its last notice, a test, and its removal. */
import type { Context, Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import { type NoticeKind, noticeEvents } from "../../core/notices.ts";
import type { PortalLanguage } from "../../core/portal-access.ts";
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
import { FieldForm, type FormState, GroupField, Input, markOf, useForm } from "./fields.tsx";
import { fieldsNamed } from "./form-fields.ts";
import { type Form, numberIn, textIn } from "./format.ts";
import type { KitTexts } from "./kit-texts.ts";
import { usePage } from "./page.tsx";
import { CheckBox, Press, Top } from "./parts.tsx";
import { attempt, attemptWith } from "./services.ts";
import { formOf, pathsOf, type Surface } from "./surface.ts";
import { serviceNames } from "./transform-texts.ts";

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
    const { t: texts, language, mayCall } = viewOf(c);
    const t = texts.notices;
    const form = noticeState(typed ?? valuesOf(channel, language), texts, refused);
    const mayChange = mayCall(setNoticeChannel);
    return showPage(
      c,
      { title: t.title, refused },
      <>
        <Top crumb={[home(c), nameOf(found.value)]} title={t.title} lede={t.lede(found.value.tenant)} />
        {tested && (
          <output class={`notice tone-${tested.delivered ? "good" : "bad"}`}>
            {tested.delivered ? t.tested : `${t.fault}: ${tested.fault}`}
          </output>
        )}
        <section class="narrow" aria-label={t.title}>
          {channel?.fault && <p class="notice tone-bad">{`${t.fault}: ${channel.fault}`}</p>}
          {mayChange ? (
            <FieldForm form={form} action={path(c)} submit={texts.save}>
              <NoticeFields kinds={noticeKindsOf(caller.services)} kept={channel?.target} />
            </FieldForm>
          ) : (
            channel && <p>{`${kindName(channel.kind, t)}: ${channel.target}`}</p>
          )}
          {channel !== undefined && (
            <div class="actions">
              {mayCall(testNoticeChannel) && <Press action={`${path(c)}/test`} label={t.test} />}
              {mayChange && <Press action={`${path(c)}/remove`} label={t.remove} />}
            </div>
          )}
        </section>
      </>,
    );
  }
}

type NoticeTexts = KitTexts["notices"];

const languages = { en: "English", de: "Deutsch" } as const satisfies Record<PortalLanguage, string>;

const kindName = (kind: NoticeKind, t: NoticeTexts) => ({ ...serviceNames, ...t.kinds })[kind];

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
function noticeState(values: Form, t: KitTexts, refused?: Refused): FormState {
  const { kind, target, on, minutes, language, faults } = t.notices;
  const labels = fieldsNamed({ kind, target, on, open_after_minutes: minutes, language });
  const texts: Readonly<Record<string, string>> = { kind: t.chooseOne, language: t.chooseOne, ...faults };
  const errors = (refused?.errors ?? []).flatMap(({ field }) => {
    const input = field.replace(/^(url|email)$/, "target").replace(/\[.*/, "");
    const text = texts[input];
    return text === undefined ? [] : [{ input, label: "", text }];
  });
  return { values, labels, errors };
}

type NoticeShown = ReturnType<typeof noticeChannelView>;

const NoticeFields: FC<{ kinds: readonly NoticeKind[]; kept: string | undefined }> = ({ kinds, kept }) => {
  const { notices: t } = usePage().t;
  const form = useForm();
  return (
    <>
      <Input name="kind" options={kinds.map((kind) => [kind, kindName(kind, t)])} />
      <Input name="target" hint={kept === undefined ? t.targetHint : t.kept(kept)} />
      <GroupField name="on">
        {noticeEvents.map((event, i) => (
          <CheckBox
            name={`on_${event}`}
            checked={form.values[`on_${event}`] === "on"}
            label={t.events[event]}
            {...(i === 0 && markOf(form, "on"))}
          />
        ))}
      </GroupField>
      <Input name="open_after_minutes" kind="number" range={{ min: 1, max: 1440 }} />
      <Input name="language" options={Object.entries(languages)} />
    </>
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
