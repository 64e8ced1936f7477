/**
 * Where a host name leads, as a resolver over HTTPS tells it (the JSON of `application/dns-json`, which
 * Cloudflare's and Google's resolvers speak): an option, because `fetch` looks names up by itself and
 * nobody can make it use the address that was judged. So this stops names that lead inside, and not a name
 * that changes its address between this question and the connection.
 *
 * Answers are kept in the isolate for as long as they say, within bounds. Only answers, never questions
 * under way: a promise must not outlive the request that it belongs to.
 */
import ipaddr from "ipaddr.js";
import { z } from "zod";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { isMetadataAddress, isPublicAddress } from "./target.ts";

export type Resolution =
  /** Every address is public, or there is none: then the attempt itself fails, and says so. */
  | Readonly<{ kind: "public" }>
  | Readonly<{ kind: "private"; address: string }>
  /** The resolver could not tell. */
  | Readonly<{ kind: "unknown"; fault: string }>;

type Answer = Readonly<{ resolution: Resolution; keptMs: number }>;

const TIMEOUT_MS = 3_000;
const SHORTEST_MS = 30_000;
const LONGEST_MS = 300_000;
/** A resolver that fails is asked again soon, and yet not for each destination of a batch. */
const AFTER_FAILURE_MS = 5_000;
const KEPT = 1_000;

const A = 1;
const AAAA = 28;
const NO_ERROR = 0;
const NO_SUCH_NAME = 3;

const answerSchema = z.object({
  Status: z.int(),
  Answer: z.array(z.object({ type: z.int(), TTL: z.number(), data: z.string() })).default([]),
});

const known = new Map<string, Readonly<{ resolution: Resolution; until: number }>>();

/**
 * Asks for the addresses of a URL's host. Without a resolver, and for an address, nothing is asked. Where
 * private addresses are allowed, what is public or private both pass; metadata services never do.
 */
export async function resolve(services: Services, url: string): Promise<Resolution> {
  const { dnsResolver } = services.config;
  const host = URL.parse(url)?.hostname.replace(/\.+$/, "") ?? "";
  const isName = !host.startsWith("[") && !ipaddr.isValid(host);
  if (!dnsResolver || !isName) return { kind: "public" };
  const name = `${dnsResolver} ${host}`;
  const kept = known.get(name);
  if (kept && kept.until > services.now()) return kept.resolution;
  const { resolution, keptMs } = await ask(services, dnsResolver, host);
  known.delete(name);
  known.set(name, { resolution, until: services.now() + keptMs });
  for (const oldest of known.keys()) if (known.size > KEPT) known.delete(oldest);
  return resolution;
}

async function ask(services: Services, resolver: string, host: string): Promise<Answer> {
  try {
    const records = [
      ...(await lookUp(services, resolver, host, A)),
      ...(await lookUp(services, resolver, host, AAAA)),
    ];
    const isInner = services.config.allowPrivateDestinations
      ? isMetadataAddress
      : (address: string) => !isPublicAddress(address);
    const inner = records.find(({ data }) => isInner(data));
    const shortest = Math.min(...records.map(({ TTL }) => TTL * 1000), LONGEST_MS);
    const keptMs = Math.max(SHORTEST_MS, shortest);
    return { resolution: inner ? { kind: "private", address: inner.data } : { kind: "public" }, keptMs };
  } catch (error) {
    return { resolution: { kind: "unknown", fault: faultOf(error) }, keptMs: AFTER_FAILURE_MS };
  }
}

/** The records of one type; the aliases on the way to them are left out. */
async function lookUp({ fetch }: Services, resolver: string, host: string, type: number) {
  const url = new URL(resolver);
  url.searchParams.set("name", host);
  url.searchParams.set("type", String(type));
  const response = await fetch(url.href, {
    headers: { accept: "application/dns-json" },
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`The resolver answered ${response.status}`);
  const { Status, Answer } = answerSchema.parse(await response.json());
  if (Status !== NO_ERROR && Status !== NO_SUCH_NAME)
    throw new Error(`The resolver failed with code ${Status}`);
  return Answer.filter((record) => record.type === type);
}
