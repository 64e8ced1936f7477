/**
 * A destination's credentials for its receiver: its custom headers, and the header that its `auth` makes. Their values are sealed
 * at rest, never shown, and opened to send.
 *
 * The other fields of `auth` are stored in plain text and authenticated with the sealed secret, so that an edit in the database
 * cannot send a client secret to another token endpoint.
 */
import type { TokenReason } from "../core/reasons.ts";
import { readAs, type Shape, type ShapeType } from "../core/shape.ts";
import { basic } from "../secrets/base64.ts";
import type { Vault } from "../secrets/vault.ts";
import type { Services } from "../services.ts";
import { type Destination, storedHeaders } from "../store/destination.ts";
import type { AccessToken, NoToken } from "./access-token.ts";

export type Headers = Readonly<Record<string, string>>;

/** Replaces a value that is not shown. */
export const MASK = "***";

const text = { kind: "text" } as const;

function shownFields<const K extends string, const F>(kind: K, fields: F) {
  const all = { kind: { kind: "choice", values: [kind] }, ...fields } as const;
  return { kind: "object", fields: all, others: "dropped" } as const;
}

/** The `auth` of requests without its secret: stored in plain text beside the secret, and shown. */
export const shownAuth = {
  kind: "tagged",
  by: "kind",
  of: [
    shownFields("basic", { username: text }),
    shownFields("bearer", {}),
    shownFields("header", { header: text }),
    shownFields("oauth2", {
      token_url: text,
      client_id: text,
      scope: { ...text, nullable: true },
      audience: { ...text, nullable: true },
      params: { kind: "record", of: text },
      client_auth: { kind: "choice", values: ["basic", "body"] },
    }),
  ],
} as const satisfies Shape;
export type ShownAuth = ShapeType<typeof shownAuth>;

type Columns = Pick<Destination, "id" | "headers" | "sealedHeaders" | "auth">;

/** The stored `auth` of a destination; undefined when it has none, and "unreadable" after an edit by hand. */
function storedAuth({ auth }: Pick<Columns, "auth">) {
  if (auth === null) return undefined;
  const shown = readAs(shownAuth, auth);
  const { sealed } = auth;
  return shown && typeof sealed === "string" ? { shown, sealed } : "unreadable";
}

/** The part that may be shown; null when there is none, or it cannot be read. */
export function authOf(destination: Pick<Columns, "auth">): ShownAuth | null {
  const stored = storedAuth(destination);
  return stored === undefined || stored === "unreadable" ? null : stored.shown;
}

/** The column for an `auth` with this secret. */
export async function sealedAuth(vault: Vault, destination: string, given: ShownAuth, secret: string) {
  const shown = readAs(shownAuth, given);
  if (shown === undefined) throw new Error("The authentication is not of a known kind");
  return { ...shown, sealed: await vault.seal(ownerOf(destination, shown), secret, "auth") };
}

/** The `auth` with its secret, opened; undefined when there is none. Rejects when it does not open. */
export async function openedAuth(
  vault: Vault,
  destination: Pick<Columns, "id" | "auth">,
): Promise<Readonly<{ shown: ShownAuth; secret: string; sealed: string }> | undefined> {
  const stored = storedAuth(destination);
  if (stored === undefined) return undefined;
  if (stored === "unreadable") throw new Error("The authentication is not readable");
  const { shown, sealed } = stored;
  return { shown, sealed, secret: await vault.openText(ownerOf(destination.id, shown), "auth", sealed) };
}

/** The same, sealed with the first master key; undefined when it is, or when there is none. */
export async function rotatedAuth(vault: Vault, destination: Columns) {
  const stored = storedAuth(destination);
  if (stored === undefined) return undefined;
  if (stored === "unreadable") throw new Error("The authentication is not readable");
  const { shown, sealed } = stored;
  if (vault.isCurrent(sealed)) return undefined;
  return { ...shown, sealed: await vault.sealAgain(ownerOf(destination.id, shown), sealed) };
}

/** The owner of the secret: the destination, and what is shown of its `auth`. */
function ownerOf(destination: string, shown: ShownAuth): string {
  return `${destination} ${JSON.stringify(shown)}`;
}

/** The header that an `auth` makes, in lower case. */
export function headerOf(auth: ShownAuth): string {
  return auth.kind === "header" ? auth.header.toLowerCase() : "authorization";
}

/** A destination's credentials, opened, for the requests of a lease. */
export type Credentials = Readonly<{
  /** The headers to send now; custom names are spelled as configured. */
  headers: () => Headers;
  /** The secrets among them, which a receiver may repeat and nobody else may see. */
  secrets: () => readonly string[];
  /** After a 401: whether there are other credentials now, or why there are none. Absent where there never are. */
  renew?: (sent: Headers) => Promise<Renewal>;
}>;

export type Renewal =
  | Readonly<{ kind: "renewed" }>
  /** There are no better ones: the receiver's refusal counts. */
  | Readonly<{ kind: "same" }>
  | Readonly<{ kind: "failed"; reason: TokenReason }>;

export const noCredentials: Credentials = { headers: () => ({}), secrets: () => [] };

type Opening = Readonly<{
  /** Runs a request on a connection of the invocation. */
  connect: <T>(task: () => Promise<T>) => Promise<T>;
  /** Fetch an access token even if that has just failed. */
  force?: boolean | undefined;
}>;

/**
 * Opens what a destination's requests carry, and has an access token where they need one. Rejects when something does not
 * open.
 */
export async function credentialsOf(
  services: Services,
  destination: Columns,
  { connect, force }: Opening,
): Promise<Credentials | NoToken> {
  const { vault } = services;
  const { id } = destination;
  const own = await ownHeaders(vault, destination);
  const opened = await openedAuth(vault, destination);
  if (opened === undefined) return { headers: () => own, secrets: () => Object.values(own) };
  const { shown, secret, sealed } = opened;
  if (shown.kind !== "oauth2") return withStatic(own, shown, secret);
  const wanted = {
    destination: id,
    terms: termsOf(sealed),
    credentials: { ...shown, client_secret: secret },
  };
  const { accessTokenFor } = await import("./access-token.ts");
  const first = await accessTokenFor(services, { ...wanted, force, connect });
  if (first.kind === "failed") return first;
  // An attempt holds a connection, which is free again when its answer's headers are there.
  const again = (refused: string) =>
    accessTokenFor(services, { ...wanted, refused, connect: (task) => task() });
  return withToken(own, first, secret, again);
}

function withStatic(own: Headers, auth: Exclude<ShownAuth, { kind: "oauth2" }>, secret: string): Credentials {
  const value = headerValueOf(auth, secret);
  const headers = { ...own, [headerOf(auth)]: value };
  const secrets = [...Object.values(own), value, value.slice(value.indexOf(" ") + 1), secret];
  return { headers: () => headers, secrets: () => secrets };
}

function headerValueOf(auth: Exclude<ShownAuth, { kind: "oauth2" }>, secret: string): string {
  switch (auth.kind) {
    case "basic":
      return basic(auth.username, secret);
    case "bearer":
      return `Bearer ${secret}`;
    case "header":
      return secret;
  }
}

/** @param again obtains a token other than the refused one, if there is any */
function withToken(
  own: Headers,
  first: AccessToken,
  clientSecret: string,
  again: (refused: string) => Promise<AccessToken | NoToken>,
): Credentials {
  let current = first;
  const headers = () => ({ ...own, authorization: `Bearer ${current.token}` });
  return {
    headers,
    secrets: () => [...Object.values(own), first.token, current.token, clientSecret],
    renew: async (sent) => {
      // Another attempt of the lease has renewed it meanwhile.
      if (sent.authorization !== headers().authorization) return { kind: "renewed" };
      const { sealed } = current;
      const next = await again(sealed);
      if (next.kind === "failed") return { kind: "failed", reason: next.reason };
      if (next.sealed === sealed) return { kind: "same" };
      current = next;
      return { kind: "renewed" };
    },
  };
}

/** The end of a sealed text: its authentication tag, which no other has. */
function termsOf(sealed: string): string {
  return sealed.slice(-22);
}

/** A destination's custom headers, decrypted, with names as its owner spells them. Rejects if one cannot be decrypted. */
export async function ownHeaders(
  vault: Vault,
  destination: Pick<Columns, "id" | "headers" | "sealedHeaders">,
): Promise<Headers> {
  const { values, isPlain } = storedHeaders(destination);
  if (isPlain) return values;
  return eachValue(values, (sealed) => vault.openText(destination.id, "header", sealed));
}

export function sealedHeaders(vault: Vault, destination: string, headers: Headers): Promise<Headers> {
  return eachValue(headers, (value) => vault.seal(destination, value, "header"));
}

/** The same headers sealed with the first master key; undefined when they are, or when there are none. */
export async function rotatedHeaders(
  vault: Vault,
  destination: Pick<Columns, "id" | "headers" | "sealedHeaders">,
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
/** Length of a value's beginning, where the text is cut off within it. */
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
