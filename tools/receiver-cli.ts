/**
 * `npm run receiver`: an endpoint to try Breakwater with, beside `npm run dev`. It verifies the signature of each
 * delivery, prints one line for it, and answers 200, or as its flags say; 401 to what it cannot verify.
 */
import { randomBytes } from "node:crypto";
import { isJsonObject, parsedJson } from "../src/core/json-value.ts";
import { type Flags, numberFlag, runScript, textFlag } from "./flags.ts";
import { type Hit, type Reply, startReceiver } from "./receiver.ts";

const HELP = `npm run receiver -- [flags]    An endpoint that verifies deliveries and prints them; Ctrl-C ends it.

  --port N         listen on this port (8788)
  --ip ADDRESS     listen on this address (127.0.0.1)
  --secret SECRET  the destination's signing secret, whsec_…; else $WEBHOOK_SECRET, else a new one, which is printed
  --status N       answer with this status instead of 200
  --retry-after S  send this Retry-After, with --status 503 or 429
  --delay MS       answer after MS milliseconds
  --first N        apply the three flags above to the first N requests only, then answer 200
  -h, --help       show this help`;

async function receive({ values }: Flags): Promise<number> {
  const given = textFlag(values, "secret") ?? (process.env.WEBHOOK_SECRET || undefined);
  const secret = given ?? `whsec_${randomBytes(32).toString("base64")}`;
  const port = numberFlag(values, "port", 0, 65_535) ?? 8_788;
  const address = textFlag(values, "ip") ?? "127.0.0.1";
  const replyTo = repliesBy(values);
  const { url } = await startReceiver(
    (hit) => {
      const reply = hit.rejection === undefined ? replyTo() : { status: 401 };
      console.log(lineOf(hit, reply));
      return reply;
    },
    { port, address, secret },
  );
  console.log(`Listening at ${url}.`);
  if (given === undefined) console.log(`\n${createCommand(url, secret)}\n`);
  await new Promise(() => {});
  return 0;
}

/** The answers that the flags select. */
function repliesBy(values: Flags["values"]): () => Reply {
  const retryAfter = numberFlag(values, "retry-after", 0, 86_400);
  const reply: Reply = {
    status: numberFlag(values, "status", 200, 599) ?? 200,
    afterMs: numberFlag(values, "delay", 0, 600_000) ?? 0,
    ...(retryAfter !== undefined && { headers: { "retry-after": String(retryAfter) } }),
  };
  let left = numberFlag(values, "first", 0, Number.MAX_SAFE_INTEGER) ?? Number.POSITIVE_INFINITY;
  return () => (left-- > 0 ? reply : { status: 200 });
}

function lineOf({ at, id, body, rejection }: Hit, { status, afterMs = 0 }: Reply): string {
  const result = rejection === undefined ? "verified" : `not verified: ${rejection}`;
  const answer = afterMs > 0 ? `${status} after ${afterMs} ms` : status;
  const time = new Date(at).toISOString().slice(11, 19);
  return `${time}  ${id || "(no id)"}  ${typeIn(body) ?? "(no type)"}  ${result}  → ${answer}`;
}

/** The event's type, as the Standard Webhooks payload has it. */
function typeIn(body: string): string | undefined {
  const json = parsedJson(body);
  return isJsonObject(json) && typeof json.type === "string" ? json.type : undefined;
}

function createCommand(url: string, secret: string): string {
  return [
    "Create a destination for it:",
    "",
    `curl ${process.env.BREAKWATER_URL || "http://localhost:8787"}/v1/destinations -H "Authorization: Bearer $BREAKWATER_KEY" \\`,
    `  --json '${JSON.stringify({ url, secret })}'`,
  ].join("\n");
}

process.exitCode = await runScript(HELP, receive);
