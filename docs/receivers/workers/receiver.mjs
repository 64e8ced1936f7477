// A complete receiver for Breakwater's webhooks on Cloudflare Workers, without dependencies.
//
// Set the secret WEBHOOK_SECRET (whsec_…) to verify HMAC-SHA256, or the variable WEBHOOK_JWKS to the address of the
// destination's public keys (https://…/v1/destinations/dst_…/jwks.json) to verify ed25519. The binding DB is a D1 database
// with this table:
//
//   CREATE TABLE received (id TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID

const TOLERANCE_S = 300;
const MAX_BODY_BYTES = 1024 * 1024;

export default {
  async fetch(request, env) {
    try {
      await receive(request, env);
      return new Response(null, { status: 204 });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const headers = error.status === 503 ? { "retry-after": "30" } : {};
      return new Response(error.message, { status: error.status, headers });
    }
  },
};

/** The answer to a refused request. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function receive(request, env) {
  if (request.method !== "POST") throw new Refused(405, "only POST is accepted");
  if (Number(request.headers.get("content-length")) > MAX_BODY_BYTES)
    throw new Refused(413, "the body is too large");
  const body = new Uint8Array(await request.arrayBuffer());
  await verify(request.headers, body, env);
  const id = request.headers.get("webhook-id");
  if (!(await claim(env.DB, id))) return console.log(`duplicate ${id}`);
  try {
    await handle(id, JSON.parse(new TextDecoder().decode(body)));
  } catch (error) {
    await env.DB.prepare("DELETE FROM received WHERE id = ?1").bind(id).run();
    throw error;
  }
}

/** Throws unless the request was signed less than five minutes ago. `body` is its raw bytes. */
async function verify(headers, body, { WEBHOOK_SECRET: secret, WEBHOOK_JWKS: jwks }) {
  if (!secret === !jwks) throw new Error("Set either WEBHOOK_SECRET or WEBHOOK_JWKS");
  const id = headers.get("webhook-id");
  const timestamp = headers.get("webhook-timestamp");
  const signatures = headers.get("webhook-signature");
  if (!id || !timestamp || !signatures) throw new Refused(401, "a webhook header is missing");
  const age = Date.now() / 1000 - Number(timestamp);
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(age) > TOLERANCE_S)
    throw new Refused(401, "the timestamp is too old or too new");
  const start = new TextEncoder().encode(`${id}.${timestamp}.`);
  const content = new Uint8Array([...start, ...body]);
  const given = signatures.split(" ").map((one) => one.split(",", 2));
  const isValid = secret
    ? await isSignedByHmac(content, given, secret)
    : await isSignedByKey(content, given, jwks);
  if (!isValid) throw new Refused(401, "no signature matches");
}

/** One signature for each secret that is in force: any of them may match. `verify` compares in constant time. */
async function isSignedByHmac(content, given, secret) {
  if (!secret.startsWith("whsec_")) throw new Error("WEBHOOK_SECRET begins with whsec_");
  const bytes = fromBase64(secret.slice("whsec_".length));
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, [
    "verify",
  ]);
  return anyMatches(content, given, "v1", "HMAC", [key]);
}

async function isSignedByKey(content, given, jwks) {
  if (await anyMatches(content, given, "v1a", "Ed25519", await publicKeys(jwks, 300))) return true;
  // A key that is not known may be new: the destination's secret has been rotated.
  return anyMatches(content, given, "v1a", "Ed25519", await publicKeys(jwks, 1));
}

/** Bytes of a signature. With a wrong length, `verify` throws for ed25519. */
const LENGTHS = { HMAC: 32, Ed25519: 64 };

async function anyMatches(content, given, version, algorithm, keys) {
  for (const [scheme, signature = ""] of given) {
    const bytes = scheme === version ? fromBase64(signature) : undefined;
    if (bytes?.length !== LENGTHS[algorithm]) continue;
    for (const key of keys) if (await crypto.subtle.verify(algorithm, key, bytes, content)) return true;
  }
  return false;
}

/** Undefined when it is not base64. */
function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** The cache of this isolate. */
const cached = { keys: undefined, at: Number.NEGATIVE_INFINITY };

/** The keys, fetched again when they are older than this; the last known ones when they cannot be fetched. */
async function publicKeys(jwks, maxAgeSeconds) {
  const maxAgeMs = cached.keys === undefined ? 1000 : maxAgeSeconds * 1000;
  if (Date.now() - cached.at >= maxAgeMs) {
    cached.at = Date.now();
    try {
      const response = await fetch(jwks, { redirect: "manual", signal: AbortSignal.timeout(5000) });
      if (!response.ok) throw new Error(`answered ${response.status}`);
      const { keys } = await response.json();
      const usable = keys.filter(({ kty, crv }) => kty === "OKP" && crv === "Ed25519");
      cached.keys = await Promise.all(
        usable.map(({ kty, crv, x }) =>
          crypto.subtle.importKey("jwk", { kty, crv, x }, "Ed25519", false, ["verify"]),
        ),
      );
    } catch (error) {
      console.error(`The public keys cannot be fetched: ${error.message}`);
    }
  }
  if (cached.keys === undefined) throw new Refused(503, "the public keys are not known");
  return cached.keys;
}

/**
 * Whether this is the first request with the id. Where the effect is in D1 as well, write both in one `batch`, so that
 * both or neither survive a crash. Delete rows that are older than a week from a cron trigger.
 */
async function claim(db, id) {
  const insert = "INSERT INTO received (id, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
  const { meta } = await db.prepare(insert).bind(id, Date.now()).run();
  return meta.changes === 1;
}

/** The application's handling of an event. */
async function handle(id, { type }) {
  console.log(`handled ${id} ${type}`);
}
