/**
 * Public ids: opaque, stable, and without a column of their own.
 *
 * An event's id is its number, which holds its database's (core/placement.ts), mixed by a bijection of 64 bits and
 * written in 13 characters of base 32: ids look unrelated, and a mistyped one matches no event. The bijection has no
 * key: anyone with an id can compute its number, and so the number of commits before it (docs/decisions/ids.md). A
 * delivery's id joins those of its event and its destination. The ids of destinations, API keys, replays and erasures
 * are random.
 */
import { isEventNumber } from "./core/placement.ts";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const BITS = 64;

const MULTIPLIERS = [0x9e3779b97f4a7c15n, 0xd6e8feb86659fd93n] as const;
const INVERSES = MULTIPLIERS.map(inverse);

/** The form of ids. Nothing else may be looked up as one, or become part of a path. */
export const idPatterns = {
  agentAction: /^act_[0-9a-z]{20}$/,
  application: /^app_[0-9a-z]{20}$/,
  delivery: /^dlv_[0-9a-z]{13}_[0-9a-z]{20}$/,
  destination: /^dst_[0-9a-z]{20}$/,
  erasure: /^era_[0-9a-z]{20}$/,
  event: /^evt_[0-9a-z]{13}$/,
  key: /^key_[0-9a-z]{20}$/,
  replay: /^rpl_[0-9a-z]{20}$/,
} as const;

/** Whether the text has the form of an id of any kind: names that callers choose may not. */
export function looksLikeId(text: string): boolean {
  return Object.values(idPatterns).some((pattern) => pattern.test(text));
}

/** The id of the event with that number. */
export function eventId(number: number): string {
  return `evt_${encode(mix(BigInt(number)))}`;
}

/** The number of an event id, or undefined when no event could have that id. */
export function eventNumber(id: string): number | undefined {
  const body = /^evt_([0-9a-hjkmnp-tv-z]{13})$/.exec(id)?.[1];
  const mixed = body === undefined ? undefined : decode(body);
  const number = mixed === undefined ? undefined : Number(unmix(mixed));
  return number !== undefined && isEventNumber(number) ? number : undefined;
}

/** The id of an event's delivery to a destination. */
export function deliveryId(event: number, destination: string): string {
  return `dlv_${eventId(event).slice(4)}_${destination.slice(4)}`;
}

/** The event's number and the destination of a delivery id, or undefined when the id is not well-formed. */
export function deliveryKey(id: string): { eventId: number; destinationId: string } | undefined {
  const parts = /^dlv_([0-9a-z]{13})_([0-9a-z]{20})$/.exec(id);
  const event = parts?.[1] && eventNumber(`evt_${parts[1]}`);
  return event ? { eventId: event, destinationId: `dst_${parts[2]}` } : undefined;
}

/** A new destination id: 100 random bits. */
export function newDestinationId(): string {
  return `dst_${randomText(20)}`;
}

/** The id of the destination that a tenant creates under an idempotency key, the same each time: 100 bits of SHA-256. */
export async function destinationIdFor(tenant: string, key: string): Promise<string> {
  return `dst_${await digestText([tenant, key], 20)}`;
}

/** The id of an MCP Events subscription, the same for the same parts: 100 bits of SHA-256. */
export async function subscriptionIdFor(parts: readonly string[]): Promise<string> {
  return `sub_${await digestText(parts, 20)}`;
}

/** A new application id: 100 random bits. */
export function newApplicationId(): string {
  return `app_${randomText(20)}`;
}

/** The id of the application that is created under an idempotency key, the same each time: 100 bits of SHA-256. */
export async function applicationIdFor(key: string): Promise<string> {
  return `app_${await digestText(["application", key], 20)}`;
}

/** The token under which a queue's message is committed, the same each time: 80 bits of SHA-256. */
export function messageToken(queue: string, message: string): Promise<string> {
  return digestText([queue, message], 16);
}

/** A key in the place of a sender's that is too long to be stored, the same each time: 160 bits of SHA-256. */
export function shortKeyFor(key: string): Promise<string> {
  return digestText(["key", key], 32);
}

/** Characters of five bits each of the SHA-256 of the names. */
async function digestText(names: readonly string[], length: number): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(names)));
  return Array.from(new Uint8Array(digest, 0, length), (byte) => ALPHABET[byte & 31]).join("");
}

/** A new id for an agent's request: 100 random bits. */
export function newAgentActionId(): string {
  return `act_${randomText(20)}`;
}

/** A new API key's id: 100 random bits. */
export function newKeyId(): string {
  return `key_${randomText(20)}`;
}

/** A new replay id: 100 random bits. */
export function newReplayId(): string {
  return `rpl_${randomText(20)}`;
}

/** A new erasure id: 100 random bits. */
export function newErasureId(): string {
  return `era_${randomText(20)}`;
}

/** Unguessable characters, of five random bits each. */
export function randomText(length: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  return Array.from(bytes, (byte) => ALPHABET[byte & 31]).join("");
}

function mix(value: bigint): bigint {
  return MULTIPLIERS.reduce((x, factor) => fold(BigInt.asUintN(BITS, fold(x) * factor)), value);
}

function unmix(value: bigint): bigint {
  return INVERSES.reduceRight((x, factor) => fold(BigInt.asUintN(BITS, fold(x) * factor)), value);
}

/** Its own inverse: keeps the upper half and XORs it into the lower. */
function fold(x: bigint): bigint {
  return x ^ (x >> 32n);
}

/** The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the exact bits. */
function inverse(odd: bigint): bigint {
  let x = odd;
  for (let bits = 3; bits < BITS; bits *= 2) x = BigInt.asUintN(BITS, x * (2n - odd * x));
  return x;
}

function encode(value: bigint): string {
  let text = "";
  for (let rest = value, i = 0; i < 13; i++, rest >>= 5n) text = ALPHABET[Number(rest & 31n)] + text;
  return text;
}

function decode(text: string): bigint | undefined {
  const value = [...text].reduce((sum, char) => (sum << 5n) | BigInt(ALPHABET.indexOf(char)), 0n);
  return value >> BigInt(BITS) === 0n ? value : undefined;
}
