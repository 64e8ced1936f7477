/**
 * A destination's signing secrets: rotation, and the public keys.
 *
 * After a rotation the new secret signs from the next batch on, and each previous one signs too until its overlap
 * ends, so that no delivery fails verification while the receiver changes over. With ed25519 the public keys are
 * published as a JSON Web Key Set (RFC 7517, 8037), which a receiver can fetch without an API key.
 */
import { z } from "@hono/zod-openapi";
import { MOST_PREVIOUS, type PreviousSecret, previousSecrets } from "../../core/credentials.ts";
import { refuseTenant } from "../../core/principal.ts";
import {
  conflict,
  conflictAt,
  invalidFields,
  missing,
  ok,
  type Refused,
  type Result,
  unavailable,
} from "../../core/result.ts";
import { formsOf } from "../../core/signature-forms.ts";
import { orLogged } from "../../log.ts";
import { toBase64, toBase64Url } from "../../secrets/base64.ts";
import { fitsEveryForm } from "../../secrets/signing.ts";
import { sealedScheme } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { changeDestination, findDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { strict, wholeNumberFrom } from "../parameters.ts";
import { service } from "../service.ts";
import { destinationService, visibleDestination } from "./one.ts";
import { secretInput, shownOfSecret } from "./schema.ts";
import { chosenSecret } from "./validate.ts";

const DAY_S = 86_400;

export const secretRotation = strict({
  ...secretInput,
  overlap_s: wholeNumberFrom(0, 7 * DAY_S, " of seconds")
    .nullish()
    .describe(
      "For how long the replaced secret still signs too; 86400 by default. 0 ends it, and those of earlier " +
        "rotations, at once.",
    ),
  secret_version: z
    .int("expected a whole number")
    .optional()
    .describe("The version to replace, so that a repeated request does not rotate twice."),
}).openapi("SecretRotation");

type Rotation = Readonly<{ id: string }> & z.infer<typeof secretRotation>;

/**
 * Replaces the signing secret by the given one or a new one, which is shown only in this result. If the caller gives
 * the secret, or `secret_version`, it may be repeated.
 */
export const rotateSecret = destinationService(
  { scope: "admin", action: "rotate_secret", role: "configure" },
  async ({ services, changed }, stored, input: Rotation) => {
    const scheme = sealedScheme(stored.secret) ?? "hmac-sha256";
    const chosen = await chosenSecret(input, scheme, formsOf(stored.signatureForms));
    if ("errors" in chosen) return invalidFields(chosen.errors);
    const { secret } = chosen;
    if (await isSecret(services, stored, stored.secret, secret))
      return ok({ row: stored, shown: await shownOfSecret(secret) });
    const row = await rotated(services, stored, secret, input);
    if ("detail" in row) return row;
    changed("destination.secret_rotated", row);
    return ok({ row, shown: await shownOfSecret(secret) });
  },
);

/**
 * Shows the stored secret, which only the Svix API does.
 * Takes the id, or the destination where the caller has just read it: a second look-up would cost a query.
 */
export const revealSecret = service(
  { scope: "admin", role: "configure" },
  async ({ services, principal, changed }, given: string | Destination) => {
    const id = typeof given === "string" ? given : given.id;
    const isForeign = typeof given === "string" || refuseTenant(principal, given.tenant) !== undefined;
    const found = isForeign ? await visibleDestination(services, principal, id) : ok(given);
    if (found.kind !== "ok") return found;
    const { secret } = found.value;
    const shown = await orLogged(services, { what: "secret_unreadable", destination: id }, async () =>
      shownOfSecret(await services.vault.unseal(id, secret)),
    );
    if (shown === undefined) return unavailable("The secret cannot be read at the moment");
    changed("destination.secret_shown", found.value);
    return ok(shown);
  },
);

/** The public keys that verify the destination's deliveries now. Anybody who knows its id may read them. */
export async function publicKeysOf(
  services: Services,
  id: string,
): Promise<Result<readonly Jwk[], "not_found" | "unavailable">> {
  const row = await findDestination(services.db, id, undefined);
  if (row === undefined) return missing("destination", id);
  const { vault, now } = services;
  const sealed = [row, ...previousSecrets(row.previousSecrets, now())].map(({ secret }) => secret);
  const keys = await orLogged(services, { what: "secret_unreadable", destination: id }, async () => {
    const opened = await Promise.all(sealed.map((text) => vault.open(id, text)));
    return Promise.all(opened.flatMap(({ publicKey }) => (publicKey ? [jwkOf(publicKey)] : [])));
  });
  return keys ? ok(keys) : unavailable("The keys cannot be read at the moment");
}

export const jwkSchema = z.object({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  alg: z.literal("EdDSA"),
  use: z.literal("sig"),
  kid: z.string().openapi({
    description: "The key's thumbprint (RFC 7638).",
    example: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
  }),
  x: z.string().openapi({
    description: "The 32 bytes of the key, in base64url.",
    example: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
  }),
  whpk: z.string().openapi({
    description: "The same key in the form of Standard Webhooks.",
    example: "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
  }),
});

type Jwk = z.infer<typeof jwkSchema>;

/** The rotated row. The write requires that the secret to replace is still the current one. */
async function rotated(
  services: Services,
  stored: Destination,
  secret: string,
  { overlap_s: overlap, secret_version: version }: z.infer<typeof secretRotation>,
): Promise<Destination | Refused<"conflict">> {
  const { db, vault, now } = services;
  if (version !== undefined && version !== stored.secretVersion) return versionTaken(version, stored);
  const at = now();
  const previous = overlap === 0 ? [] : await stillSigning(services, stored, secret, at);
  if (previous.length >= MOST_PREVIOUS) return tooManyPrevious(previous, at);
  const replaced = { secret: stored.secret, expires_at: at + (overlap ?? DAY_S) * 1000 };
  const change = {
    secret: await vault.seal(stored.id, secret),
    secretVersion: stored.secretVersion + 1,
    previousSecrets: overlap === 0 ? [] : [replaced, ...previous],
    updatedAt: at,
  };
  const { signatureForms } = stored;
  const seen = { secret: stored.secret, ...(!fitsEveryForm(secret) && { signatureForms }) };
  const row = await changeDestination(db, stored.id, change, stored.tenant, seen);
  return row ?? conflict("The destination was changed at the same moment");
}

/** The previous secrets that still sign, without the new one, should it be one of them. */
async function stillSigning(services: Services, stored: Destination, secret: string, at: number) {
  const kept = await Promise.all(
    previousSecrets(stored.previousSecrets, at).map(async (each) =>
      (await isSecret(services, stored, each.secret, secret)) ? [] : [each],
    ),
  );
  return kept.flat();
}

function versionTaken(version: number, { secretVersion }: Destination): Refused<"conflict"> {
  const [fault, expected] = [`is ${version}`, `the current ${secretVersion}`];
  const error = { field: "secret_version", fault, expected };
  return conflictAt("The secret has been rotated already: secret_version", error);
}

/** Whether a rotation was refused because an earlier one has replaced the secret that it named. */
export function isRepeatedRotation({ kind, errors = [] }: Refused): boolean {
  return kind === "conflict" && errors.some(({ field }) => field === "secret_version");
}

function tooManyPrevious(previous: readonly PreviousSecret[], now: number): Refused<"conflict"> {
  const next = Math.min(...previous.map(({ expires_at: at }) => at));
  const detail = `${MOST_PREVIOUS} previous secrets still sign: rotate again at ${isoTime(next)}, or now with overlap_s 0, which ends them`;
  return { kind: "conflict", detail, retryAfterS: Math.ceil((next - now) / 1000) };
}

/** Whether the sealed secret is this one. False when it cannot be opened: a rotation repairs that. */
async function isSecret({ vault }: Services, { id }: Destination, sealed: string, secret: string) {
  return vault.unseal(id, sealed).then(
    (opened) => opened === secret,
    () => false,
  );
}

async function jwkOf(publicKey: Uint8Array): Promise<Jwk> {
  const x = toBase64Url(publicKey);
  // The members that RFC 8037 requires, in the order of RFC 7638.
  const required = new TextEncoder().encode(JSON.stringify({ crv: "Ed25519", kty: "OKP", x }));
  const thumbprint = new Uint8Array(await crypto.subtle.digest("SHA-256", required));
  const whpk = `whpk_${toBase64(publicKey)}`;
  return { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: toBase64Url(thumbprint), x, whpk };
}
