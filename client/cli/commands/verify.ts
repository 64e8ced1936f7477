import { WebhookVerificationError } from "standardwebhooks";
import { BodyWebhook } from "../../src/body-webhook.ts";
import { verifyParts } from "../../src/verify.ts";
import { type Command, CommandLineError, EXIT } from "../command.ts";
import { readBytes } from "../input.ts";
import { print } from "../output.ts";
import { secretFrom } from "../profiles.ts";

export const verifyCommand: Command = {
  name: "verify",
  summary: "Verify the signature of a request that a receiver got",
  details:
    "The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` are needed, and the body's exact bytes. The secret is\n" +
    "read from $WEBHOOK_SECRET, from standard input, or from a prompt. Exits with 8 if the signature is wrong or too old.",
  options: {
    header: { value: "name: value", isList: true, help: "A header of the request" },
    body: { value: "file", help: "A file with the body; required" },
  },
  async run(call) {
    const file = call.needed("body");
    if (file === "-") throw new CommandLineError("verify needs --body <file>");
    const headers = headersIn(call.list("header") ?? []);
    const body = readBytes(file);
    const secret = await secretFrom("WEBHOOK_SECRET", "Signing secret");
    const result = resultOf(body, headers, secret);
    print(call.has("json") ? JSON.stringify(result) : result.text);
    return result.verified ? EXIT.ok : EXIT.no;
  },
};

function headersIn(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^\s*([\w-]+)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
      if (name === undefined || value === undefined)
        throw new CommandLineError(`--header is ${line}; expected name: value`);
      return [name.toLowerCase(), value];
    }),
  );
}

type VerifyResult = Readonly<{ verified: boolean; text: string }>;

function resultOf(body: Uint8Array, headers: Record<string, string>, secret: string): VerifyResult {
  try {
    const { id, sentAt } = verifyParts(body, headers, secret);
    return {
      verified: true,
      text: `The signature of ${id} is valid; it was made at ${new Date(sentAt).toISOString()}`,
    };
  } catch (error) {
    if (!(error instanceof WebhookVerificationError))
      throw new CommandLineError(`The secret cannot be used: ${(error as Error).message}`);
    const isRight = /too (old|new)/.test(error.message) && isSigned(body, headers, secret);
    return {
      verified: false,
      text: isRight
        ? `The signature is valid, but receivers now refuse it: ${error.message}`
        : `Not verified: ${error.message}`,
    };
  }
}

/** Whether the secret has signed the request, at any time. */
function isSigned(body: Uint8Array, headers: Record<string, string>, secret: string): boolean {
  const { "webhook-id": id = "", "webhook-timestamp": at, "webhook-signature": signatures = "" } = headers;
  return signatures.split(" ").includes(new BodyWebhook(secret, body).sign(id, new Date(Number(at) * 1000)));
}
