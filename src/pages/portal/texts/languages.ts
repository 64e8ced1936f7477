/**
 * The languages of the portal: which of them a browser requests, and how they write numbers and times. Times are UTC: the
 * server does not know the reader's time zone.
 */
import { type PortalLanguage, portalLanguages } from "../../../core/portal-access.ts";
import { durationOf, type Formats, untilOf } from "../../ui/format.ts";
import { de } from "./de.ts";
import { en, type Texts } from "./en.ts";

export const texts: Readonly<Record<PortalLanguage, Texts>> = { en, de };

const formats = new Map<PortalLanguage, Formats>();

/** Made once for each language: formatters are slow to make. */
export function formatsIn(language: PortalLanguage): Formats {
  const known = formats.get(language) ?? formatsOf(language, texts[language]);
  formats.set(language, known);
  return known;
}

/** The language of that name; undefined when there is none. */
export function languageNamed(name: unknown): PortalLanguage | undefined {
  return portalLanguages.find((language) => language === name);
}

/** The language that an Accept-Language prefers (RFC 9110 §12.5.4), English if it names none of these. */
export function languageAccepted(header: string | undefined): PortalLanguage {
  const wanted = (header ?? "").slice(0, 500).split(",").map(weighted);
  const known = wanted.flatMap(({ tag, weight }) => {
    const language = languageNamed(tag.split("-")[0]?.toLowerCase());
    return language !== undefined && weight > 0 ? [{ language, weight }] : [];
  });
  return known.toSorted((a, b) => b.weight - a.weight)[0]?.language ?? "en";
}

function weighted(range: string): Readonly<{ tag: string; weight: number }> {
  const [tag = "", ...parameters] = range.trim().split(";");
  const q = parameters.map((text) => /^\s*q=([01](\.\d{0,3})?)\s*$/i.exec(text)?.[1]).find(Boolean);
  return { tag, weight: q === undefined ? 1 : Number(q) };
}

const SECOND = 1000;
const steps = [
  ["day", 86_400 * SECOND],
  ["hour", 3600 * SECOND],
  ["minute", 60 * SECOND],
  ["second", SECOND],
] as const;

/** The locale whose numbers and dates are used: en has no order of day and month that all understand. */
const locales: Readonly<Record<PortalLanguage, string>> = { en: "en-GB", de: "de-DE" };

function formatsOf(language: PortalLanguage, { units, justNow }: Texts): Formats {
  const locale = locales[language];
  const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 });
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "always", style: "long" });
  const moment = new Intl.DateTimeFormat(locale, {
    dateStyle: "medium",
    timeStyle: "medium",
    timeZone: "UTC",
  });
  return {
    count: (n) => number.format(n),
    atMost: (n, most) => (n >= most ? `${number.format(most)}+` : number.format(n)),
    duration: (ms) => durationOf(ms, units),
    until: (at, now) => untilOf(at, now, units),
    ago: (at, now) => {
      const ms = now - at;
      const [unit, size] = steps.find(([, size]) => ms >= size) ?? [];
      return unit === undefined ? justNow : relative.format(-Math.floor(ms / size), unit);
    },
    moment: (at) => moment.format(at),
    exact: (at) => `${moment.format(at)} UTC`,
  };
}
