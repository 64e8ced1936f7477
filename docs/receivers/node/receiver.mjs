// A complete receiver for Breakwater's webhooks. Node 18 or later, without dependencies.
//
//   WEBHOOK_SECRET=whsec_… node receiver.mjs
//   WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json node receiver.mjs
//
// The first verifies HMAC-SHA256 with the destination's secret, the second ed25519 with its public keys.
import { createHmac, createPublicKey, timingSafeEqual, verify as verifyEd25519 } from "node:crypto";
import { createServer } from "node:http";

const { WEBHOOK_SECRET: SECRET, WEBHOOK_JWKS: JWKS, PORT = "8788" } = process.env;
if (!SECRET === !JWKS) throw new Error("Set either WEBHOOK_SECRET or WEBHOOK_JWKS");
if (SECRET && !SECRET.startsWith("whsec_")) throw new Error("WEBHOOK_SECRET begins with whsec_");

const TOLERANCE_S = 300;
const MAX_BODY_BYTES = 1024 * 1024;
const REMEMBERED_MS = 7 * 24 * 60 * 60 * 1000;

/** The answer to a refused request. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Throws unless the request was signed less than five minutes ago. `body` is its raw bytes. */
async function verify(headers, body) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (!id || !timestamp || !signatures) throw new Refused(401, "a webhook header is missing");
  const age = Date.now() / 1000 - Number(timestamp);
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(age) > TOLERANCE_S)
    throw new Refused(401, "the timestamp is too old or too new");
  const content = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const given = signatures.split(" ").map((one) => one.split(",", 2));
  const isValid = SECRET ? isSignedByHmac(content, given) : await isSignedByKey(content, given);
  if (!isValid) throw new Refused(401, "no signature matches");
}

/** One signature for each secret that is in force: any of them may match. */
function isSignedByHmac(content, given) {
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const expected = createHmac("sha256", key).update(content).digest();
  return given.some(([version, signature = ""]) => {
    const bytes = Buffer.from(signature, "base64");
    return version === "v1" && bytes.length === expected.length && timingSafeEqual(bytes, expected);
  });
}

async function isSignedByKey(content, given) {
  const matches = (keys) =>
    given.some(([version, signature = ""]) => {
      const bytes = Buffer.from(signature, "base64");
      return (
        version === "v1a" &&
        bytes.length === 64 &&
        keys.some((key) => verifyEd25519(null, content, key, bytes))
      );
    });
  // A key that is not known may be new: the destination's secret has been rotated.
  return matches(await publicKeys(300)) || matches(await publicKeys(1));
}

const cached = { keys: undefined, at: Number.NEGATIVE_INFINITY };

/** The keys, fetched again when they are older than this; the last known ones when they cannot be fetched. */
async function publicKeys(maxAgeSeconds) {
  const maxAgeMs = cached.keys === undefined ? 1000 : maxAgeSeconds * 1000;
  if (Date.now() - cached.at >= maxAgeMs) {
    cached.at = Date.now();
    try {
      const response = await fetch(JWKS, { redirect: "error", signal: AbortSignal.timeout(5000) });
      if (!response.ok) throw new Error(`answered ${response.status}`);
      const { keys } = await response.json();
      const usable = keys.filter(({ kty, crv }) => kty === "OKP" && crv === "Ed25519");
      cached.keys = usable.map((key) => createPublicKey({ key, format: "jwk" }));
    } catch (error) {
      console.error(`The public keys cannot be fetched: ${error.message}`);
    }
  }
  if (cached.keys === undefined) throw new Refused(503, "the public keys are not known");
  return cached.keys;
}

/**
 * The ids that have been handled. In production this is a table with a unique column: insert the id in the transaction
 * that stores the effect, so that both or neither survive a crash.
 */
const handled = new Map();

function claim(id) {
  const oldest = Date.now() - REMEMBERED_MS;
  for (const [known, at] of handled) {
    if (at > oldest) break;
    handled.delete(known);
  }
  if (handled.has(id)) return false;
  handled.set(id, Date.now());
  return true;
}

/** The application's handling of an event. */
function handle(id, { type }) {
  console.log(`handled ${id} ${type}`);
}

async function receive(request) {
  if (request.method !== "POST") throw new Refused(405, "only POST is accepted");
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new Refused(413, "the body is too large");
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  await verify(request.headers, body);
  const id = request.headers["webhook-id"];
  if (!claim(id)) return console.log(`duplicate ${id}`);
  try {
    handle(id, JSON.parse(body.toString()));
  } catch (error) {
    handled.delete(id);
    throw error;
  }
}

const server = createServer(async (request, response) => {
  try {
    await receive(request);
    response.writeHead(204).end();
  } catch (error) {
    const status = error instanceof Refused ? error.status : 500;
    if (status === 500) console.error(error);
    response.writeHead(status, status === 503 ? { "retry-after": "30" } : {});
    response.end(error instanceof Refused ? error.message : "");
  }
});

server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
