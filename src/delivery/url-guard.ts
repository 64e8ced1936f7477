/**
 * Where deliveries may go: the guard against server-side request forgery. A URL is checked when a destination is
 * written and again at every send, because rows can be changed by hand and rules can become stricter.
 *
 * The check is of the URL as it is parsed, by the same parser that `fetch` uses, so that no spelling of an address can
 * mean one thing here and another there. In production the platform itself reaches no private network, and no host that
 * is given as an IP address.
 *
 * The addresses of a public name are checked too, if the deployment names a resolver over HTTPS (the JSON of
 * `application/dns-json`, which Cloudflare's and Google's resolvers offer). It is an option, because `fetch` resolves
 * names by itself and cannot be made to use the address that was checked. So this stops names that have private
 * addresses, and not a name that changes its address between the check and the connection.
 */
import ipaddr from "ipaddr.js";
import { readAs, type Shape } from "../core/shape.ts";
import { faultOf } from "../log.ts";
import type { Resolution } from "../memory.ts";
import type { Services } from "../services.ts";

type Fault = Readonly<{
  /** The fault, to follow "the URL" in a sentence. */
  fault: string;
  expected: string;
}>;

const MAX_LENGTH = 2048;

/** Names that never resolve on the public internet (RFC 6761, 6762, 7686, 8375, 9476, and what networks use inside). */
const INNER_NAMES =
  /(^|\.)(localhost|localdomain[46]?|local|internal|intranet|private|corp|home|lan|home\.arpa|onion|alt|svc|default|consul)$/;

/**
 * Services that hand out a machine's credentials to any request from the machine itself. They are refused in every
 * deployment, and so are their addresses.
 */
const METADATA_NAMES: readonly string[] = [
  "metadata",
  "metadata.google.internal",
  "metadata.goog",
  "metadata.azure.internal",
  "instance-data",
  "instance-data.ec2.internal",
  "metadata.tencentyun.com",
  "metadata.packet.net",
  "metadata.platformequinix.com",
];

/** A host name on the internet: the parser accepts more. */
const HOST_NAME = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/;

/** Addresses of the same services; those of most clouds are link-local. */
const METADATA_ADDRESSES: ReadonlySet<string> = new Set([
  "168.63.129.16", // Azure's host agent: public by number
  "100.100.100.200", // Alibaba
  "192.0.0.192", // Oracle
  "fd00:ec2::254", // Amazon
  "fd20:ce::254", // Google
  "fd00:c1::a9fe:a9fe", // Oracle
  "fd00:42::42", // Scaleway
]);

const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");

/** Ports of internal services that speak HTTP, or can be made to misread it. */
const INNER_PORTS: ReadonlySet<number> = new Set([
  1080, 1433, 1521, 1883, 2049, 2181, 2375, 2376, 2377, 2379, 2380, 2483, 2484, 3128, 3268, 3269, 3306, 3389,
  4369, 4646, 5432, 5433, 5601, 5672, 5900, 5984, 5985, 5986, 6000, 6379, 6380, 6443, 6667, 7000, 7001, 7199,
  7473, 7474, 7687, 8020, 8086, 8125, 8200, 8300, 8301, 8500, 8529, 8600, 9000, 9042, 9090, 9091, 9092, 9093,
  9100, 9160, 9200, 9300, 9418, 10248, 10250, 10255, 10256, 11211, 11434, 15672, 16379, 25672, 26257, 26379,
  27017, 27018, 27019, 28015, 28017, 50070, 61613, 61616,
]);

/**
 * Ports that `fetch` must not call, by its standard: services that are not HTTP servers. Refused in every deployment.
 * https://fetch.spec.whatwg.org/#port-blocking
 */
const BAD_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/**
 * The fault of a URL as a destination, as a sentence; undefined when there is none.
 * @param ownHosts see `targetProblem`
 */
export function targetFault(
  url: string,
  allowPrivate: boolean,
  ownHosts: readonly string[] = [],
): string | undefined {
  const found = targetProblem(url, allowPrivate, ownHosts);
  return found && `The URL ${found.fault}; expected ${found.expected}.`;
}

/**
 * The same, in two halves.
 * @param ownHosts hosts under which this deployment itself is reached: deliveries to them would loop. A
 *   host without a port means all of its ports, and one with a port (local stacks) only that port; one that begins with
 *   `*` means all that end with the rest
 */
export function targetProblem(
  url: string,
  allowPrivate: boolean,
  ownHosts: readonly string[] = [],
): Fault | undefined {
  const spelling = spellingFault(url);
  if (spelling) return spelling;
  const parsed = URL.parse(url);
  if (parsed === null) return { fault: "cannot be parsed", expected: "an absolute https URL" };
  if (parsed.href.length > MAX_LENGTH) return tooLong(parsed.href.length);
  const fault = allowPrivate
    ? metadataFault(parsed.hostname)
    : (schemeFault(parsed) ?? hostFault(parsed.hostname));
  return (
    fault ??
    ownHostFault(parsed, ownHosts) ??
    badPortFault(parsed) ??
    (allowPrivate ? undefined : portFault(parsed))
  );
}

const credentials = { fault: "contains credentials", expected: "none; use `headers` for them" };

function tooLong(length: number): Fault {
  return { fault: `is ${length} characters long`, expected: `at most ${MAX_LENGTH}` };
}

/** Faults that the parser would correct silently: the stored URL must read as the one that is called. */
function spellingFault(url: string): Fault | undefined {
  if (url.length > MAX_LENGTH) return tooLong(url.length);
  if (!/^https?:\/\/[^/\\?#]/i.test(url))
    return { fault: "is not an http(s) URL", expected: "https://host/path" };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the parser drops some of them silently.
  if (/[\x00-\x20\x7f\\]/.test(url)) {
    return {
      fault: "contains a space, a backslash or a control character",
      expected: "them to be percent-encoded",
    };
  }
  if (url.includes("#")) return { fault: "has a fragment", expected: "none: it would not be sent" };
  return /^https?:\/\/[^/?]*@/i.test(url) ? credentials : undefined;
}

function schemeFault({ protocol }: URL): Fault | undefined {
  return protocol === "https:" ? undefined : { fault: "is not encrypted", expected: "https" };
}

/** The host without trailing dots and without brackets. */
function bareHost(hostname: string): string {
  return hostname.replace(/\.+$/, "").replace(/^\[|\]$/g, "");
}

function metadataFault(hostname: string): Fault | undefined {
  const host = bareHost(hostname);
  if (!isMetadataAddress(host) && !METADATA_NAMES.includes(host)) return undefined;
  return {
    fault: `points to ${host}, a link-local address or a metadata service`,
    expected: "another host, even where private addresses are allowed",
  };
}

function hostFault(hostname: string): Fault | undefined {
  const host = bareHost(hostname);
  if (isAddress(host)) return isPublicAddress(host) ? literalFault(host) : notPublic(`points to ${host}`);
  if (!host.includes(".") || INNER_NAMES.test(host) || METADATA_NAMES.includes(host))
    return notPublic(`points to the private name ${host}`);
  return HOST_NAME.test(host) ? undefined : notPublic("has an invalid host name");
}

function notPublic(fault: string): Fault {
  return { fault, expected: "a host on the public internet" };
}

/** `fetch` of a Worker cannot call an address: it is answered with Cloudflare's error 1003. */
function literalFault(host: string): Fault {
  return {
    fault: `points to the IP address ${host}`,
    expected: "a host name: Workers cannot call an IP address",
  };
}

function ownHostFault({ hostname, port, protocol }: URL, ownHosts: readonly string[]): Fault | undefined {
  const host = bareHost(hostname);
  const effectivePort = port || (protocol === "https:" ? "443" : "80");
  const isOwn = ownHosts.some((own) => {
    const [, name = "", ownPort = effectivePort] = /^(.*?)(?::(\d+))?$/.exec(own) ?? [];
    const bare = bareHost(name);
    const isSame = bare.startsWith("*") ? host.endsWith(bare.slice(1)) : host === bare;
    return isSame && ownPort === effectivePort;
  });
  if (!isOwn) return undefined;
  return {
    fault: `points to ${host}, this deployment itself`,
    expected: "another host: deliveries would loop",
  };
}

/** The characters of an address; most names have other characters. */
const ADDRESS_LIKE = /:|^[\da-fx.]+$/i;

/** Whether the library reads it as an address. Its characters first: it throws and catches an error for each name. */
export function isAddress(host: string): boolean {
  return ADDRESS_LIKE.test(host) && ipaddr.isValid(host);
}

/** Global unicast: for IPv6 that is 2000::/3 (RFC 4291), without the ranges that the library knows to be special. */
function isPublicAddress(host: string): boolean {
  if (!isAddress(host)) return false;
  const address = ipaddr.parse(host);
  if (address.range() !== "unicast" || isMetadataAddress(host)) return false;
  return address instanceof ipaddr.IPv6 ? address.match(GLOBAL_IPV6) : true;
}

/**
 * Link-local, or where a machine gets its own credentials, also in every IPv6 form of an IPv4 address. Never to be
 * called, not even where private addresses are allowed: anybody who may write a destination could read the credentials of
 * the machine that Breakwater runs on.
 */
function isMetadataAddress(host: string): boolean {
  if (!isAddress(host)) return false;
  const address = ipaddr.parse(host);
  const forms = address instanceof ipaddr.IPv6 ? [address, ...embeddedIn(address)] : [address];
  return forms.some((form) => form.range() === "linkLocal" || METADATA_ADDRESSES.has(form.toString()));
}

/** The IPv4 addresses that an IPv6 address stands for where it is translated or tunnelled. */
function embeddedIn(address: ipaddr.IPv6): ipaddr.IPv4[] {
  const bytes = address.toByteArray();
  const at = (from: number) => new ipaddr.IPv4(bytes.slice(from, from + 4));
  const isCompatible = bytes.slice(0, 12).every((byte) => byte === 0);
  switch (isCompatible ? "ipv4Compatible" : address.range()) {
    case "ipv4Compatible":
    case "ipv4Mapped":
    case "rfc6145": // ::ffff:0:a.b.c.d
    case "rfc6052": // NAT64, well-known and a network's own prefix
      return [at(12)];
    case "6to4":
      return [at(2)];
    case "teredo": // written upside down
      return [new ipaddr.IPv4(bytes.slice(12).map((byte) => byte ^ 0xff))];
    default:
      return [];
  }
}

function badPortFault({ port }: URL): Fault | undefined {
  if (port === "" || !BAD_PORTS.has(Number(port))) return undefined;
  return {
    fault: `uses port ${port}, which the Fetch standard blocks`,
    expected: "a port of an HTTP server, such as 443",
  };
}

function portFault({ port }: URL): Fault | undefined {
  const number = Number(port);
  if (port === "" || number === 80 || number === 443 || (number >= 1024 && !INNER_PORTS.has(number)))
    return undefined;
  return {
    fault: `uses port ${port}`,
    expected: "443, 80, or a port from 1024 on that no internal service is known to use",
  };
}

type Answer = Readonly<{ resolution: Resolution; keptMs: number }>;

const TIMEOUT_MS = 3_000;
const SHORTEST_MS = 30_000;
const LONGEST_MS = 300_000;
/** A failure is kept briefly, so that a failing resolver is not queried for each destination of a batch. */
const AFTER_FAILURE_MS = 5_000;

const A = 1;
const AAAA = 28;
const NO_ERROR = 0;
const NO_SUCH_NAME = 3;

const record = {
  kind: "object",
  fields: { type: { kind: "number", whole: true }, TTL: { kind: "number" }, data: { kind: "text" } },
  others: "dropped",
} as const satisfies Shape;

const dnsAnswer = {
  kind: "object",
  fields: {
    Status: { kind: "number", whole: true },
    Answer: { kind: "list", of: record, optional: true },
  },
  others: "dropped",
} as const satisfies Shape;

/**
 * Resolves the host of a URL. Without a resolver, for an address, and for an invalid URL no query is made: the guard of
 * the target reports what is wrong with it. Where private addresses are allowed, public and private ones both pass;
 * metadata services never do.
 */
export async function resolve(services: Services, url: string): Promise<Resolution> {
  const { dnsResolver } = services.config;
  const host = URL.parse(url)?.hostname.replace(/\.+$/, "");
  const isName = host !== undefined && !host.startsWith("[") && !isAddress(host);
  if (!dnsResolver || !isName) return { kind: "public" };
  const name = `${dnsResolver} ${host}`;
  const { resolutions } = services.memory;
  const kept = resolutions.get(name);
  if (kept && kept.until > services.now()) return kept.resolution;
  const { resolution, keptMs } = await query(services, dnsResolver, host);
  resolutions.set(name, { resolution, until: services.now() + keptMs });
  return resolution;
}

async function query(services: Services, resolver: string, host: string): Promise<Answer> {
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

/** The records of one type, without the aliases that lead to them. */
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
  const answer = readAs(dnsAnswer, await response.json());
  if (answer === undefined)
    throw new Error("The resolver's answer has not Status, and Answer with type, TTL and data");
  const { Status, Answer = [] } = answer;
  if (Status !== NO_ERROR && Status !== NO_SUCH_NAME)
    throw new Error(`The resolver failed with code ${Status}`);
  return Answer.filter((record) => record.type === type);
}
