/**
 * A receiver's statement about when to send again.
 *
 * `Retry-After` (RFC 9110 §10.2.3) is an order. It is parsed by hand, because `Date.parse` takes far more than the RFC
 * allows, and differently from engine to engine. A malformed field is ignored; a well-formed one is used, however
 * large: the callers bound it by the age limit.
 *
 * Rate limit headers are advice, given before the receiver has to refuse: the `RateLimit` field of the IETF draft
 * (draft-ietf-httpapi-ratelimit-headers), its older `RateLimit-Remaining` and `-Reset`, and the customary
 * `X-RateLimit-…`. Unparseable ones are ignored.
 */

/** Longer than any HTTP-date and any number that a receiver can mean. */
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
 * All three forms of RFC 9110 §5.6.7; a recipient must accept the two obsolete ones too. The weekday must be a weekday
 * but is not checked against the date: ignoring the field over that would mean to retry too early.
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

/** RFC 9110 §5.6.7: two digits mean the latest such year that is at most 50 years ahead. */
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

export type StatedLimits = Readonly<{
  /** Requests that the receiver will still take. */
  remaining: number;
  /** When it will take more, epoch ms. */
  resetAt: number;
}>;

/** A header's value by its lower-case name, or null. */
type HeaderOf = (name: string) => string | null;

/** The longest hold for such advice. */
const LONGEST_MS = 60 * 60_000;
/** A reset from here on is a time, in seconds since 1970; below, it is seconds from now. */
const EPOCH_FROM_S = 1_000_000_000;

/**
 * Undefined when the receiver states no limit whose reset lies ahead.
 * @param ok whether the response was a success: a Retry-After on any other is for the retry policy
 */
export function statedLimits(header: HeaderOf, ok: boolean, now: number): StatedLimits | undefined {
  const pauseEndsAt = ok ? parseRetryAfter(header("retry-after") ?? undefined, now) : undefined;
  const [remaining, resetAt] = pauseEndsAt === undefined ? numbersOf(header, now) : [0, pauseEndsAt];
  return resetAt > now ? { remaining, resetAt: Math.min(resetAt, now + LONGEST_MS) } : undefined;
}

function numbersOf(header: HeaderOf, now: number): Pair {
  const pair = structured(header("ratelimit")) ?? plain(header, "ratelimit") ?? plain(header, "x-ratelimit");
  const [remaining, reset] = pair ?? [0, 0];
  return [remaining, reset >= EPOCH_FROM_S ? reset * 1000 : now + reset * 1000];
}

type Pair = readonly [remaining: number, reset: number];

/** `"burst";r=12;t=30, "day";r=4;t=3600`: of several policies the tightest counts. */
function structured(value: string | null): Pair | undefined {
  if (value === null) return undefined;
  const pairs = value.split(",").flatMap((item): Pair[] => {
    const remaining = whole(/;\s*r=(\d+)/.exec(item)?.[1]);
    const reset = whole(/;\s*t=(\d+)/.exec(item)?.[1]);
    return remaining === undefined || reset === undefined ? [] : [[remaining, reset]];
  });
  return pairs.toSorted(([a], [b]) => a - b)[0];
}

function plain(header: HeaderOf, prefix: string): Pair | undefined {
  const remaining = whole(header(`${prefix}-remaining`));
  if (remaining === undefined) return undefined;
  const reset = whole(header(`${prefix}-reset`));
  return reset === undefined ? undefined : [remaining, reset];
}

/** A whole number of at most ten digits, as all of these are. */
function whole(text: string | null | undefined): number | undefined {
  return text && /^\s*\d{1,10}\s*$/.test(text) ? Number(text) : undefined;
}
