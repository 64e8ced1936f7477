/** Chooses a test event, of the plain type or with a type's example, sends it, and shows the result: nothing is stored. */
import type { Context, Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import { plainTest } from "../../delivery/test-event.ts";
import { type TestReport, testDestination } from "../../features/destinations/service.ts";
import { getTypesWithExamples } from "../../features/event-types/service.ts";
import { isSuccess } from "./delivery-panel.tsx";
import { requestText, responseText } from "./exchange.ts";
import { FieldForm } from "./fields.tsx";
import { textIn } from "./format.ts";
import { usePage } from "./page.tsx";
import { ButtonLink, Copyable, Section, Select, Top } from "./parts.tsx";
import { attempt } from "./services.ts";
import { causeHint } from "./status-text.ts";
import { pathsOf, type Surface } from "./surface.ts";

export function registerTestEvent<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { callerOf, find, may, showPage, showMissing, showRefused, viewOf } = surface;
  const { route, idIn, home, path } = pathsOf(surface, "test");

  app.on(["GET", "POST"], route, may("send_test"));

  app.get(route, async (c) => {
    const found = await find(c, idIn(c));
    return found.kind === "ok" ? show(c) : showMissing(c);
  });

  app.post(route, async (c) => {
    const type = textIn(await c.req.parseBody(), "type");
    const tested = await attempt(callerOf(c), testDestination, { id: idIn(c), type });
    if (tested.kind === "ok") return show(c, { report: tested.value, type });
    return tested.kind === "invalid"
      ? showRefused(c, tested, path(c), viewOf(c).t.test.noExample)
      : showRefused(c, tested, home(c));
  });

  async function show(c: Context<E>, tested?: Readonly<{ report: TestReport; type: string | undefined }>) {
    const listed = await getTypesWithExamples(callerOf(c), undefined);
    const types = listed.kind === "ok" ? listed.value : [];
    const { f, t: texts } = viewOf(c);
    const { title, heading = title, took, what, back, crumb = back, ...t } = texts.test;
    const report = tested?.report;
    const hint = causeHint(report?.error);
    return showPage(
      c,
      { title },
      <>
        <Top
          crumb={[home(c), crumb]}
          title={report ? <Headline {...report} /> : heading}
          lede={`${report ? `${took(f.duration(report.latency_ms))} ` : ""}${what}`}
        >
          {hint !== undefined && t.showsHints && <p>{hint}</p>}
        </Top>
        <FieldForm
          action={path(c)}
          submit={report ? t.again : t.send}
          aside={<ButtonLink href={home(c)}>{back}</ButtonLink>}
        >
          {types.length > 0 && (
            <div class="fields">
              <Select
                label={t.type}
                name="type"
                of={[...new Set([plainTest.type, ...types])].map((one) => [one, one])}
                chosen={tested?.type}
              />
            </div>
          )}
        </FieldForm>
        {types.length === 0 && t.noTypes && <p class="soft small">{t.noTypes}</p>}
        {report && <Exchanges report={report} />}
      </>,
    );
  }
}

const Exchanges: FC<{ report: TestReport }> = ({ report }) => {
  const { test, exchange } = usePage().t;
  const parts = [
    ["location", test.redirect, report.location],
    ["response", exchange.response, responseText(report)],
    ["sent", exchange.request, requestText(report.sent)],
  ] as const;
  return (
    <>
      {parts.map(
        ([id, title, text]) =>
          text !== undefined && (
            <Section id={`${id}-head`} title={title}>
              <Copyable id={id} label={title} text={text} />
            </Section>
          ),
      )}
    </>
  );
};

const Headline: FC<TestReport> = ({ status, error }) => {
  const { causeText, t } = usePage();
  const { challenged = t.test.noAnswer, noAnswer, accepted, rejected } = t.test;
  if (error === "challenged") return <>{challenged(causeText(error))}</>;
  if (status === undefined || error !== undefined) return <>{noAnswer(causeText(error ?? "network"))}</>;
  return <>{(isSuccess({ status }) ? accepted : rejected)(String(status))}</>;
};
