/**
 * The public keys of a destination that is signed for with ed25519, as a JSON Web Key Set (RFC 7517, 8037):
 * whoever receives its deliveries can fetch what verifies them, without a key of ours. During a rotation
 * the keys before are there as well, the current one first.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { faultOf } from "../log.ts";
import { previousSecrets } from "../policy/previous-secrets.ts";
import { toBase64, toBase64Url } from "../secrets/base64.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { findDestination } from "../store/destinations.ts";
import type { Api } from "./context.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";

/** Short enough for a rotation to be seen long before an overlap of a day ends. */
const CACHED_S = 300;

const jwkSchema = z.object({
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
    description: "The same key as Standard Webhooks writes it.",
    example: "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
  }),
});

type Jwk = z.infer<typeof jwkSchema>;

const getKeys = createRoute({
  method: "get",
  path: "/v1/destinations/{id}/jwks.json",
  summary: "Show a destination's public keys",
  description: "For its receiver, who needs no key for it. Only with `ed25519` there are any.",
  tags: ["Destinations"],
  security: [],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(
      z.object({ keys: z.array(jwkSchema) }).openapi("JsonWebKeySet"),
      "The public keys; none for a destination that is signed for with a shared secret.",
    ),
    ...problemResponses(404, 503),
  },
});

/** Registered before authentication. */
export function registerDestinationKeys(api: Api): void {
  api.openapi(getKeys, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = await findDestination(services.db, id, undefined);
    if (row === undefined) return noSuch("destination", id);
    const keys = await publicKeys(services, row);
    if (keys === undefined) return problem(503, "The keys cannot be read at the moment");
    return c.json({ keys }, 200, { "cache-control": `public, max-age=${CACHED_S}` });
  });
}

/** Undefined when what is stored does not open. */
async function publicKeys({ vault, log, now }: Services, row: Destination): Promise<Jwk[] | undefined> {
  const sealed = [row, ...previousSecrets(row.previousSecrets, now())].map(({ secret }) => secret);
  try {
    const opened = await Promise.all(sealed.map((text) => vault.open(row.id, text)));
    return Promise.all(opened.flatMap(({ publicKey }) => (publicKey ? [jwkOf(publicKey)] : [])));
  } catch (error) {
    log({ what: "secret_unreadable", destination: row.id, error: faultOf(error) });
    return undefined;
  }
}

async function jwkOf(publicKey: Uint8Array): Promise<Jwk> {
  const x = toBase64Url(publicKey);
  // The members that RFC 8037 requires, in the order of RFC 7638.
  const required = new TextEncoder().encode(JSON.stringify({ crv: "Ed25519", kty: "OKP", x }));
  const thumbprint = new Uint8Array(await crypto.subtle.digest("SHA-256", required));
  const whpk = `whpk_${toBase64(publicKey)}`;
  return { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: toBase64Url(thumbprint), x, whpk };
}
