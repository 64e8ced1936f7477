/** Numbers and times as a person reads them. Pure; times in epoch ms. */
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span in its two largest units: "42 s", "3 min 5 s", "2 h", "3 d 4 h". Below a second: "350 ms". */
export function spanOf(ms: number): string {
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.round(ms / SECOND);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return twoUnits(seconds, 60, "min", "s");
  if (ms < DAY) return twoUnits(Math.round(ms / MINUTE), 60, "h", "min");
  return twoUnits(Math.round(ms / HOUR), 24, "d", "h");
}

/** A span that there may be none of. */
export function spanIfAny(ms: number | null): string {
  return ms === null ? "–" : spanOf(ms);
}

function twoUnits(smaller: number, each: number, large: string, small: string): string {
  const rest = smaller % each;
  return `${Math.floor(smaller / each)} ${large}${rest > 0 ? ` ${rest} ${small}` : ""}`;
}

/** How long ago, from seconds on, in one unit: "just now", "42 s ago", "3 h ago". */
export function agoOf(at: number, now: number): string {
  const ms = now - at;
  if (ms < SECOND) return "just now";
  const [size, unit] = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [SECOND, "s"],
  ].find(([size]) => ms >= (size as number)) as [number, string];
  return `${Math.floor(ms / size)} ${unit} ago`;
}

/** The time left until `at`, rounded up to seconds: a countdown never says 0 before its time. */
export function untilOf(at: number, now: number): string {
  return spanOf(Math.max(1, Math.ceil((at - now) / SECOND)) * SECOND);
}

const whole = new Intl.NumberFormat("en");
const share = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function countOf(n: number): string {
  return whole.format(n);
}

/** A count that was stopped at `most`: "1,000+". */
export function atMost(n: number, most: number): string {
  return n >= most ? `${whole.format(most)}+` : whole.format(n);
}

/** One digit after the point at most. */
export function decimalOf(n: number): string {
  return share.format(n);
}

export function percentOf(part: number, all: number): string {
  return all === 0 ? "–" : `${share.format((100 * part) / all)} %`;
}

/** "1 attempt", "20 attempts". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}

/** "14:03:22" for today, "19 Nov, 14:03" before. UTC, because a server does not know where it is read. */
export function momentOf(at: number, now: number): string {
  const iso = new Date(at).toISOString();
  if (iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10)) return iso.slice(11, 19);
  return `${dayOf(at)}, ${iso.slice(11, 16)}`;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

function dayOf(at: number): string {
  return day.format(at);
}
