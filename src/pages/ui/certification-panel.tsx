/** The conformance of a receiver, on the dashboard and in the portal: what is sent by whose consent, and the last result. */
import type { Child, FC } from "hono/jsx";
import {
  type Certification,
  type CertificationOutcome,
  type CertificationTexts,
  explainedFault,
  isCertified,
} from "../../core/certification.ts";
import { isoTime } from "../../time.ts";
import { StateLabel, Submit } from "./parts.tsx";
import type { Tone } from "./status-text.ts";

/** The texts, in the language of the page. */
export type CertificationPageTexts = CertificationTexts &
  Readonly<{
    title: string;
    lede: string;
    consent: string;
    run: string;
    certified: string;
    notCertified: string;
    never: string;
  }>;

const tones: Readonly<Record<CertificationOutcome["result"], Tone>> = {
  passed: "good",
  failed: "bad",
  not_applicable: "quiet",
  not_run: "quiet",
};

type Formats = Readonly<{
  duration: (ms: number) => string;
  moment: (at: number) => string;
  /** The cause of a missing answer. */
  error: (name: string) => string;
}>;

type Props = Readonly<{
  t: CertificationPageTexts;
  f: Formats;
  last: Certification | undefined;
  path: string;
  mayRun: boolean;
  children?: Child;
}>;

/** @param children what leads back to the destination */
export const CertificationPanel: FC<Props> = ({ t, f, last, path, mayRun, children }) => (
  <>
    <section>
      {children}
      <h1>{t.title}</h1>
      <p class="lede">{t.lede}</p>
    </section>
    {mayRun && (
      <form class="stack" method="post" action={path}>
        <label class="check">
          <input type="checkbox" name="consent" value="true" required autocomplete="off" />
          {t.consent}
        </label>
        <div class="actions">
          <Submit>{t.run}</Submit>
        </div>
      </form>
    )}
    <section aria-labelledby="result">
      <div class="head">
        <h2 id="result">{certificationSummary(t, last)}</h2>
        {last && (
          <time class="small soft" datetime={isoTime(last.at)}>
            {`${f.moment(last.at)} UTC`}
          </time>
        )}
      </div>
      {last && (
        <ul class="log">
          {last.checks.map((outcome) => (
            <Check t={t} f={f} outcome={outcome} />
          ))}
        </ul>
      )}
    </section>
  </>
);

/** The last result in a few words. */
export function certificationSummary(
  t: Pick<CertificationPageTexts, "certified" | "notCertified" | "never">,
  last: Certification | undefined,
): string {
  if (last === undefined) return t.never;
  return isCertified(last) ? t.certified : t.notCertified;
}

const Check: FC<Pick<Props, "t" | "f"> & Readonly<{ outcome: CertificationOutcome }>> = ({
  t,
  f,
  outcome,
}) => {
  const { check, result, error, limit_ms = 0, id } = outcome;
  const words = { limit: f.duration(limit_ms), errorText: error === undefined ? "" : f.error(error) };
  const why = explainedFault(t, outcome, words);
  return (
    <li>
      <StateLabel tone={tones[result]}>{t.results[result]}</StateLabel>
      <div>
        <p>{t.checks[check]}</p>
        {why && <p>{`${why.reason} ${why.fix}`}</p>}
        <p class="small soft break">{[answerOf(outcome, f), id].filter(Boolean).join(" · ")}</p>
      </div>
    </li>
  );
};

function answerOf({ status, error, took_ms }: CertificationOutcome, f: Formats): string {
  const parts = [
    status === undefined ? "" : `HTTP ${status}`,
    error === undefined ? "" : f.error(error),
    took_ms === undefined ? "" : f.duration(took_ms),
  ];
  return parts.filter((part) => part !== "").join(" · ");
}
