/** An event as commands for a shell, which send it as an attempt would. */
import type { RequestHeaders } from "../../core/bundle.ts";
import { transformedUrl } from "../../core/transform/url.ts";
import { authOf, headerOf } from "../../delivery/authorization.ts";
import { textOf } from "../../delivery/http.ts";
import { kindNameOf } from "../../delivery/kinds/sending.ts";
import { signerFor } from "../../delivery/signature.ts";
import { requestFor } from "../../delivery/transform.ts";
import { eventId } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { type Destination, storedHeaders } from "../../store/destination.ts";
import type { StoredEvent } from "../../store/planned-deliveries.ts";

/** Commands are made for the first destinations only: each one is signed. */
const MAX_COMMANDS = 5;

/**
 * The event as a command that sends it as an attempt would, signed now, so that a receiver can be debugged. By destination,
 * without those whose secret cannot be opened. Headers that a destination sets itself, its own ones and its `auth`, are
 * left out, because they may be secret.
 */
export async function curlCommands(
  services: Services,
  event: StoredEvent,
  destinations: readonly (Destination | null)[],
): Promise<ReadonlyMap<string, string>> {
  const existing = destinations.flatMap((destination) =>
    destination?.deletedAt === null && kindNameOf(destination.url) === "https" ? [destination] : [],
  );
  const commands = existing.slice(0, MAX_COMMANDS).map(async (destination) => {
    const command = await curlCommand(services, event, destination);
    return command === undefined ? [] : [[destination.id, command] as const];
  });
  return new Map((await Promise.all(commands)).flat());
}

async function curlCommand(services: Services, event: StoredEvent, destination: Destination) {
  const { vault, now, log } = services;
  const { id, type, body } = event;
  if (!body) return undefined;
  const request = await requestFor(services, { ...event, body }, destination);
  if ("kind" in request) return undefined;
  const { payload, way, headers: posted = {} } = request;
  try {
    const at = now();
    const sign = await signerFor(vault, destination, at);
    const { body: sent, contentType } = payload;
    const url = transformedUrl(destination.url, way);
    const method = way === undefined || way.method === "POST" ? "" : `-X ${way.method} `;
    const headers = Object.entries({
      ...withoutOwn(posted, destination),
      "content-type": contentType,
      ...(await sign({ id: eventId(id), type, body: sent }, at)),
    });
    const text = asArgument(sent);
    const source = text === undefined ? `printf %s ${shellQuoted(sent.toBase64())} | base64 -d | ` : "";
    return [
      `${source}curl ${method}${shellQuoted(url)}`,
      ...headers.map(([name, value]) => `  -H ${shellQuoted(`${name}: ${value}`)}`),
      text === undefined ? "  --data-binary @-" : `  --data-raw ${shellQuoted(text)}`,
    ].join(" \\\n");
  } catch (error) {
    log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return undefined;
  }
}

/** The event's request headers that its destination does not replace by headers of its own, in lower case. */
function withoutOwn(posted: RequestHeaders, destination: Destination): Record<string, string> {
  const auth = authOf(destination);
  const own = [...Object.keys(storedHeaders(destination).values), ...(auth ? [headerOf(auth)] : [])];
  const replaced = new Set(own.map((name) => name.toLowerCase()));
  const named = Object.entries(posted).map(([name, value]) => [name.toLowerCase(), value] as const);
  return Object.fromEntries(named.filter(([name]) => !replaced.has(name)));
}

/** The text that a page can show and a command can have; undefined where bytes would get lost: those of NUL, or of CR. */
function asArgument(bytes: Uint8Array): string | undefined {
  const text = textOf(bytes);
  return text === undefined || /[\0\r]/.test(text) ? undefined : text;
}

/** An argument for a POSIX shell: within single quotes all is literal but the single quote itself. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
