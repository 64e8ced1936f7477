/**
 * A destination in JSON: what may be posted and changed, and what is shown, with its settings from fields.ts. Checks
 * that depend on the deployment or on stored data are in validate.ts.
 */
import { z } from "@hono/zod-openapi";
import { previousSecrets } from "../../core/credentials.ts";
import type { Principal } from "../../core/principal.ts";
import { type PauseReason, pauseReasons } from "../../core/reasons.ts";
import { zodFieldsOf } from "../../core/zod-of.ts";
import { destinationKinds, shownTarget, targetFields } from "../../delivery/kinds/registry.ts";
import { kindNameOf } from "../../delivery/kinds/sending.ts";
import { toBase64 } from "../../secrets/base64.ts";
import { isPlainTextSecret, schemes, secretBytes, signingKey } from "../../secrets/signing.ts";
import { sealedScheme } from "../../secrets/vault.ts";
import { type Destination, statusOf } from "../../store/destination.ts";
import { isoTime } from "../../time.ts";
import { documented, strict, tenantName, time, trueOrFalse } from "../parameters.ts";
import {
  contentFields,
  destinationFields,
  givenShape,
  nameFields,
  sendingFields,
  shownFields,
  shownShape,
} from "./fields.ts";

const kindInput = z
  .enum(destinationKinds)
  .nullish()
  .describe(
    "What deliveries are sent to, `https` unless given: an endpoint (`url`), a Cloudflare queue (`binding`, or " +
      "`account_id`, `queue_id` and `token`), or a Worker behind a service binding (`binding`, `path`). It stays as it is.",
  );

const changeable = givenShape(destinationFields);

export const SECRET_EXPECTED =
  "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 key";
const ANY_SECRET_EXPECTED = `expected ${SECRET_EXPECTED}, or, for another signature form, 20 to 128 printable ASCII characters without spaces around them`;

/** Whether a plain text fits the destination's signature forms is checked in validate.ts. */
const signingSecret = z
  .string(ANY_SECRET_EXPECTED)
  .refine((text) => secretBytes(text) !== undefined || isPlainTextSecret(text), ANY_SECRET_EXPECTED);

/** The fields by which a caller chooses the signing secret, on creation and on rotation. */
export const secretInput = {
  secret: signingSecret
    .nullish()
    .describe(
      "The signing secret, `whsec_…` or `whsk_…`; one is generated when it is left out. For signature forms other than " +
        "`standard` and `svix` it may be any 20 to 128 printable ASCII characters without spaces around them.",
    ),
  signature: z
    .enum(schemes)
    .nullish()
    .describe(
      "`hmac-sha256` signs with a shared secret (v1), `ed25519` with a key pair (v1a), only in the form `standard`.",
    ),
};

/** The view of a new secret, shown once: of an ed25519 key only the public half, because the other is never needed. */
export const shownSecret = {
  secret: z.string().optional().openapi({
    description: "The shared secret; it is shown only here.",
    example: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  }),
  public_key: z.string().optional().describe("With ed25519: `whpk_` and the public key."),
};

export type ShownSecret = Readonly<{ secret?: string; public_key?: string }>;

/** The view of a new secret: the shared secret, or the public half of a key pair. */
export async function shownOfSecret(secret: string): Promise<ShownSecret> {
  const { publicKey } = await signingKey(secret);
  return publicKey ? { public_key: `whpk_${toBase64(publicKey)}` } : { secret };
}

const { url, ...otherTargetFields } = zodFieldsOf(targetFields);

const statusField = z.enum(["active", "paused"], 'expected "active" or "paused"');

export const newDestination = strict({
  url,
  tenant: tenantName.optional(),
  kind: kindInput,
  ...otherTargetFields,
  ...secretInput,
  handshake: trueOrFalse
    .optional()
    .describe(
      "Whether to request the receiver's permission first (CloudEvents webhook validation, OPTIONS). The rate that it " +
        "allows becomes the destination's rate.",
    ),
  status: statusField.optional().describe("`paused` creates it paused: its events wait until it is resumed."),
  ...changeable,
}).openapi("NewDestination");

export const destinationChange = strict({
  url,
  kind: kindInput,
  ...otherTargetFields,
  ...changeable,
}).openapi("DestinationChange");

/** Settings to be tried on past events; the destination's settings apply if they are left out. */
export const destinationDraft = strict({
  event_types: changeable.event_types,
  channels: changeable.channels,
  filter: changeable.filter,
}).openapi("DestinationDraft");

export type NewDestinationInput = z.infer<typeof newDestination>;
export type DestinationInput = z.infer<typeof destinationChange>;

export const destinationSchema = documented("Destination", {
  id: z.string(),
  tenant: z.string(),
  kind: z.enum(destinationKinds),
  url: z.string().optional().describe("The endpoint, of kind `https`."),
  binding: z.string().optional().describe("Of kind `queue` or `service`."),
  path: z.string().optional().describe("Of kind `service`."),
  account_id: z.string().optional().describe("Of kind `queue`, without a binding."),
  queue_id: z.string().optional().describe("Of kind `queue`, without a binding."),
  ...shownShape(nameFields),
  status: statusField,
  status_reason: z
    .enum(pauseReasons)
    .nullable()
    .describe(
      "Why it is paused: `manual`, by an operator; `gone`, after a 410; `rejecting`, after more than a hundred " +
        "refusals in a row; `failing`, after five days without a success; `transform_failing`, after more than forty " +
        "deliveries that its transformation failed for.",
    ),
  ...shownShape(contentFields),
  signature: z.enum(schemes),
  secret_version: z.int().describe("1 at first; each rotation adds one."),
  previous_secrets: z
    .array(z.object({ expires_at: time }))
    .describe("Secrets that were replaced and still sign until they expire, the newest first."),
  ...shownShape(sendingFields),
  expires_at: time
    .optional()
    .describe("Of an MCP Events subscription: when it ends, unless its client renews it."),
  created_at: time,
  updated_at: time,
});

/** The view without what only operators see, for principals that are bound to a tenant. */
export function destinationViewFor(
  { tenant }: Pick<Principal, "tenant">,
  row: Destination,
): z.infer<typeof destinationSchema> {
  const view = destinationView(row);
  if (tenant === undefined) return view;
  const { group: _, ...shown } = view;
  return shown;
}

/** A destination as the API shows it: never with its secret, nor with the values of its headers. */
export function destinationView(row: Destination): z.infer<typeof destinationSchema> {
  return {
    id: row.id,
    tenant: row.tenant,
    kind: kindNameOf(row.url),
    ...shownTarget(row.url),
    ...shownFields(nameFields, row),
    status: statusOf(row),
    status_reason: row.statusReason as PauseReason | null,
    ...shownFields(contentFields, row),
    signature: sealedScheme(row.secret) ?? "hmac-sha256",
    secret_version: row.secretVersion,
    previous_secrets: previousSecrets(row.previousSecrets).map((each) => ({
      expires_at: isoTime(each.expires_at),
    })),
    ...shownFields(sendingFields, row),
    ...(row.expiresAt !== null && { expires_at: isoTime(row.expiresAt) }),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}
