/** Requests and answers on pages: as text, and content that no page can show as a file. */
import type { AttemptJson } from "../../features/deliveries/schema.ts";
import { indented } from "./format.ts";

type Answer = NonNullable<AttemptJson["response"]>;

type Sent = Readonly<{ url: string; headers: Readonly<Record<string, string>>; body: string }>;

/** A request as it goes over the wire, except its JSON, which is indented. */
export function requestText({ url, headers, body }: Sent): string {
  return [`POST ${url}`, headerLines(headers), ...(body === "" ? [] : ["", indented(body)])].join("\n");
}

type Received = Readonly<{
  status?: number | undefined;
  response_headers?: Readonly<Record<string, string>> | undefined;
  response?: string | undefined;
}>;

/** A response as it came over the wire, except its JSON, which is indented; undefined when there was none. */
export function responseText({ status, response_headers = {}, response }: Received): string | undefined {
  if (status === undefined) return undefined;
  const parts = [
    `HTTP ${status}`,
    headerLines(response_headers),
    ...(response ? ["", indented(response)] : []),
  ];
  return parts.filter((part, i) => i !== 1 || part !== "").join("\n");
}

export function headerLines(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");
}

/** The bytes as they were archived. */
export function bytesOf({ encoding, body }: Pick<Answer, "encoding" | "body">): Uint8Array<ArrayBuffer> {
  return new Uint8Array(encoding === "base64" ? Uint8Array.fromBase64(body) : new TextEncoder().encode(body));
}

/** To be saved and never shown: a browser treats it as inert data. */
export function answerFile(answer: Answer): Response {
  return new Response(bytesOf(answer), {
    headers: {
      "content-type": "application/octet-stream",
      "content-disposition": 'attachment; filename="answer.bin"',
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    },
  });
}
