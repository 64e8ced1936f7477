/** The conformance of a receiver: the requests, the consent, and the last result. */
import type { Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import {
  type Certification,
  type CertificationOutcome,
  certificationIn,
  explainedFault,
  isCertified,
} from "../../core/certification.ts";
import { certifyDestination } from "../../features/destinations/certification.ts";
import { isoTime } from "../../time.ts";
import { nameOf } from "./destination-table.tsx";
import { FieldForm } from "./fields.tsx";
import { textIn } from "./format.ts";
import type { KitTexts } from "./kit-texts.ts";
import { usePage } from "./page.tsx";
import { CheckBox, Section, StateLabel, Top } from "./parts.tsx";
import { attempt } from "./services.ts";
import type { Tone } from "./status-text.ts";
import { pathsOf, type Surface } from "./surface.ts";

export function registerCertification<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { callerOf, find, may, showPage, showMissing, showRefused, viewOf } = surface;
  const { route, idIn, home, path } = pathsOf(surface, "certification");

  app.get(route, async (c) => {
    const found = await find(c, idIn(c));
    if (found.kind !== "ok") return showMissing(c);
    const last = certificationIn(found.value.certification);
    const { f, mayCall, t: texts } = viewOf(c);
    const t = texts.certification;
    const at = last && (
      <time class="small soft" datetime={isoTime(last.at)}>
        {`${f.moment(last.at)} UTC`}
      </time>
    );
    return showPage(
      c,
      { title: t.title },
      <>
        <Top crumb={[home(c), nameOf(found.value)]} title={t.title} lede={t.lede} />
        {mayCall(certifyDestination) && (
          <FieldForm action={path(c)} submit={t.run}>
            <CheckBox name="consent" value="true" required label={t.consent} />
          </FieldForm>
        )}
        <Section id="result" title={certificationSummary(t, last)} aside={at}>
          {last && (
            <ul class="log">
              {last.checks.map((outcome) => (
                <Outcome outcome={outcome} />
              ))}
            </ul>
          )}
        </Section>
      </>,
    );
  });

  app.post(route, may("send_test"));
  app.post(route, async (c) => {
    const consent = textIn(await c.req.parseBody(), "consent") === "true";
    const done = await attempt(callerOf(c), certifyDestination, { id: idIn(c), consent });
    return done.kind === "ok" ? c.redirect(path(c), 303) : showRefused(c, done, path(c));
  });
}

const tones: Readonly<Record<CertificationOutcome["result"], Tone>> = {
  passed: "good",
  failed: "bad",
  not_applicable: "quiet",
  not_run: "quiet",
};

/** The last result in a few words. */
export function certificationSummary(
  t: Pick<KitTexts["certification"], "certified" | "notCertified" | "never">,
  last: Certification | undefined,
): string {
  if (last === undefined) return t.never;
  return isCertified(last) ? t.certified : t.notCertified;
}

const Outcome: FC<{ outcome: CertificationOutcome }> = ({ outcome }) => {
  const { f, causeText, t } = usePage();
  const { check, result, status, error, took_ms, limit_ms = 0, id } = outcome;
  const errorText = error === undefined ? "" : causeText(error);
  const why = explainedFault(t.certification, outcome, { limit: f.duration(limit_ms), errorText });
  const answer = [
    status === undefined ? "" : `HTTP ${status}`,
    errorText,
    took_ms === undefined ? "" : f.duration(took_ms),
  ];
  return (
    <li>
      <StateLabel tone={tones[result]}>{t.certification.results[result]}</StateLabel>
      <div>
        <p>{t.certification.checks[check]}</p>
        {why && <p>{`${why.reason} ${why.fix}`}</p>}
        <p class="small soft break">{[...answer, id].filter(Boolean).join(" · ")}</p>
      </div>
    </li>
  );
};
