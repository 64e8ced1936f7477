/** Headers as they may be shown: those of a destination's own may be credentials, so their values are not told. */

type Headers = Readonly<Record<string, string>>;

const MASK = "***";

/** @param own a destination's own headers, by whatever case their names are in */
export function maskedHeaders(headers: Headers, own: Headers): Record<string, string> {
  const secret = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const shown = Object.entries(headers).map(([name, value]) => {
    return [name, secret.has(name.toLowerCase()) ? MASK : value] as const;
  });
  return Object.fromEntries(shown);
}
