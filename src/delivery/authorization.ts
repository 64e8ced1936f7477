/**
 * What a destination's requests carry so that the receiver lets them in: headers of its owner's own. They may be
 * credentials, so each value is sealed at rest, shown to nobody, and opened to send.
 */
import { type Destination, storedHeaders } from "../db/destinations.ts";
import type { Vault } from "../secrets/vault.ts";

export type Headers = Readonly<Record<string, string>>;

/** What stands for a value that is not shown. */
export const MASK = "***";

/** A destination's own headers, opened; their names are spelled as its owner does. Rejects when one does not open. */
export async function ownHeaders(
  vault: Vault,
  destination: Pick<Destination, "id" | "headers" | "sealedHeaders">,
): Promise<Headers> {
  const { values, isPlain } = storedHeaders(destination);
  if (isPlain) return values;
  return eachValue(values, (sealed) => vault.openText(destination.id, "header", sealed));
}

/** The values sealed, as they are stored. */
export function sealedHeaders(vault: Vault, destination: string, headers: Headers): Promise<Headers> {
  return eachValue(headers, (value) => vault.seal(destination, value, "header"));
}

/** The same headers sealed with the first master key; undefined when they are, or when there are none. */
export async function resealedHeaders(
  vault: Vault,
  destination: Pick<Destination, "id" | "headers" | "sealedHeaders">,
): Promise<Headers | undefined> {
  const { values, isPlain } = storedHeaders(destination);
  if (isPlain) return sealedHeaders(vault, destination.id, values);
  if (Object.values(values).every(vault.isCurrent)) return undefined;
  return eachValue(values, (sealed) => vault.sealAgain(destination.id, sealed));
}

async function eachValue(headers: Headers, change: (value: string) => Promise<string>): Promise<Headers> {
  const changed = Object.entries(headers).map(async ([name, value]) => [name, await change(value)] as const);
  return Object.fromEntries(await Promise.all(changed));
}

/**
 * Headers as they may be shown.
 * @param own a destination's own headers, whose values are masked; their names may be spelled in any case
 */
export function maskedHeaders(headers: Headers, own: Headers): Record<string, string> {
  const secret = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const shown = Object.entries(headers).map(([name, value]) => {
    return [name, secret.has(name.toLowerCase()) ? MASK : value] as const;
  });
  return Object.fromEntries(shown);
}

/** A shorter value is found in ordinary texts too, and protects nothing. */
const SHORTEST_SECRET = 8;
/** Of the beginning of a value, where the text is cut off within it. */
const SHORTEST_START = 4;

/**
 * A text of the receiver's without the values that were sent to it: servers that explain a refusal repeat headers.
 * Found as they were sent, not in other forms.
 */
export function withoutValues(text: string, values: readonly string[]): string {
  const secrets = values.filter(({ length }) => length >= SHORTEST_SECRET);
  const masked = secrets.reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
  const cut = Math.max(0, ...secrets.map((secret) => startAtEnd(masked, secret)));
  return cut > 0 ? masked.slice(0, -cut) + MASK : masked;
}

/** How many characters at the end of the text begin the secret; 0 for fewer than are worth hiding. */
function startAtEnd(text: string, secret: string): number {
  for (let length = secret.length - 1; length >= SHORTEST_START; length--)
    if (text.endsWith(secret.slice(0, length))) return length;
  return 0;
}
