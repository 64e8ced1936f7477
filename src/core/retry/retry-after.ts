/**
 * The receiver's own word on when to come back: the Retry-After field, RFC 9110 §10.2.3.
 *
 * Parsed by hand, because `Date.parse` takes far more than the RFC allows and takes it differently from
 * engine to engine. What is malformed is no wish at all; what is well formed is believed, however large:
 * the callers bound it by the age limit.
 */
/** Longer than any HTTP-date and than any number a receiver can mean. */
const longestValue = 40;

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const monthName = `(?<month>${months.join("|")})`;
const shortDay = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const longDay = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
const timeOfDay = "(?<hour>[01]\\d|2[0-3]):(?<minute>[0-5]\\d):(?<second>[0-5]\\d|60)";

const imfFixdate = new RegExp(`^${shortDay}, (?<day>\\d\\d) ${monthName} (?<year>\\d{4}) ${timeOfDay} GMT$`);
const rfc850Date = new RegExp(`^${longDay}, (?<day>\\d\\d)-${monthName}-(?<year>\\d\\d) ${timeOfDay} GMT$`);
const asctimeDate = new RegExp(`^${shortDay} ${monthName} (?<day>\\d\\d| \\d) ${timeOfDay} (?<year>\\d{4})$`);

type CivilTime = Readonly<Record<"year" | "month" | "day" | "hour" | "minute" | "second", number>>;

/**
 * When the receiver may be tried again, in epoch milliseconds: never before `now`, at most
 * `Number.MAX_SAFE_INTEGER`. Undefined for an absent field and for one that is not delta-seconds or an
 * HTTP-date (negative, fractional, empty, over-long, a list of two).
 */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined || value.length > longestValue) return undefined;
  const at = /^\d+$/.test(value) ? now + Number(value) * 1000 : parseHttpDate(value, now);
  return at === undefined ? undefined : Math.min(Math.max(at, now), Number.MAX_SAFE_INTEGER);
}

/**
 * All three forms of RFC 9110 §5.6.7; a recipient must take the two obsolete ones as well. The weekday
 * must be a weekday but is not checked against the date: to ignore a plain wish over it would be to come
 * too early.
 */
function parseHttpDate(value: string, now: number): number | undefined {
  const groups = (imfFixdate.exec(value) ?? rfc850Date.exec(value) ?? asctimeDate.exec(value))?.groups;
  if (groups === undefined) return undefined;
  const time: CivilTime = {
    year: Number(groups.year),
    month: months.indexOf(groups.month ?? ""),
    day: Number(groups.day),
    hour: Number(groups.hour),
    minute: Number(groups.minute),
    second: Number(groups.second),
  };
  const full = groups.year?.length === 2 ? withCentury(time, now) : time;
  return isOnCalendar(full) ? epochMs(full) : undefined;
}

/** RFC 9110 §5.6.7: two digits are the latest such year that is not more than 50 years ahead. */
function withCentury(time: CivilTime, now: number): CivilTime {
  let year = 1900 + time.year;
  while (epochMs({ ...time, year: year + 100 - 50 }) <= now) year += 100;
  return { ...time, year };
}

/** Refuses 31 February, and years before 1900 (RFC 5322 §3.3), which `Date.UTC` would misread as 19xx. */
function isOnCalendar({ year, month, day }: CivilTime): boolean {
  return year >= 1900 && day >= 1 && Date.UTC(year, month, day) < Date.UTC(year, month + 1, 1);
}

function epochMs({ year, month, day, hour, minute, second }: CivilTime): number {
  return Date.UTC(year, month, day, hour, minute, second);
}
