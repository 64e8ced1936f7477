/** The values of `format` in JSON Schema that are checked, as RFC 3339, 1123, 5321, 3986 and 9562 define them. */
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isDate(text: string): boolean {
  const [, year = 0, month = 0, day = 0] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? []).map(Number);
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = month === 2 && isLeap ? 29 : (DAYS[month - 1] ?? 0);
  return day >= 1 && day <= days;
}

function isTime(text: string): boolean {
  return /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d{1,9})?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i.test(text);
}

function isHostname(text: string): boolean {
  return (
    text.length <= 253 && text.split(".").every((part) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(part))
  );
}

function isEmail(text: string): boolean {
  const at = text.indexOf("@");
  return /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}$/i.test(text.slice(0, at)) && isHostname(text.slice(at + 1));
}

/** Whether values of `format` are checked by it. */
export function isFormat(name: string): boolean {
  return formatOf(name) !== undefined;
}

/** The check of a `format`; undefined if there is none. */
export function formatOf(name: unknown): ((text: string) => boolean) | undefined {
  return typeof name === "string" && Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
}

const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: isTime,
  "date-time": (text) => /^.{10}t/i.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11)),
  email: isEmail,
  hostname: isHostname,
  ipv4: (text) => /^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(?!$)|$)){4}$/.test(text),
  uri: (text) => /^[a-z][a-z0-9+.-]*:[!#$%&'()*+,/0-9:;=?@A-Z[\]_a-z~.-]+$/i.test(text),
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
};
