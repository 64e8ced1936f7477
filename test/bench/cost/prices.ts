/**
 * What Cloudflare's Workers Paid plan charges beyond what it includes, in dollars, as published in autumn
 * 2026: https://developers.cloudflare.com/workers/platform/pricing/ and the pages of D1, Queues and Durable
 * Objects.
 */
import { queueOperations, type Units } from "./units.ts";

const MILLION = 1_000_000;
/** A Durable Object is billed with 128 MB for as long as it is in use. */
const GATE_GB = 0.128;

const PRICES = {
  d1RowWritten: 1 / MILLION,
  d1RowRead: 0.001 / MILLION,
  queueOperation: 0.4 / MILLION,
  gateRequest: 0.15 / MILLION,
  gateRowWritten: 1 / MILLION,
  gateRowRead: 0.001 / MILLION,
  gateGbSecond: 12.5 / MILLION,
  invocation: 0.3 / MILLION,
  cpuMs: 0.02 / MILLION,
} as const;

/** @param cpuMs of CPU, which the platform bills by the millisecond */
export function dollarsFor(units: Units, cpuMs: number): number {
  return (
    units.d1RowsWritten * PRICES.d1RowWritten +
    units.d1RowsRead * PRICES.d1RowRead +
    queueOperations(units) * PRICES.queueOperation +
    units.gateRequests * PRICES.gateRequest +
    units.gateRowsWritten * PRICES.gateRowWritten +
    units.gateRowsRead * PRICES.gateRowRead +
    (units.gateMs / 1000) * GATE_GB * PRICES.gateGbSecond +
    units.invocations * PRICES.invocation +
    cpuMs * PRICES.cpuMs
  );
}

/** What others publish for a million delivered, in dollars. Hosted ones: with nothing to run oneself. */
export const PEERS: readonly (readonly [name: string, dollars: string])[] = [
  ["Svix", "100"],
  ["hook0", "about 100"],
  ["Hookdeck Outpost, hosted", "10"],
  ["Google Pub/Sub push, Cloud Tasks; Amazon EventBridge", "0.8 to 1.2"],
];
