/** Numbers and times as the language writes them. Times are UTC: the server does not know the reader's time zone. */
import type { PortalLanguage } from "../../core/portal-access.ts";
import { durationOf, type Formats, untilOf } from "../ui/format.ts";
import type { Texts } from "./texts/en.ts";

const SECOND = 1000;
const steps = [
  ["day", 86_400 * SECOND],
  ["hour", 3600 * SECOND],
  ["minute", 60 * SECOND],
  ["second", SECOND],
] as const;

/** The locale whose numbers and dates are used: en has no order of day and month that all understand. */
const locales: Readonly<Record<PortalLanguage, string>> = { en: "en-GB", de: "de-DE" };

export function formatsOf(language: PortalLanguage, { units, justNow }: Texts): Formats {
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
