/**
 * The prices of Cloudflare's Workers Paid plan, beyond what it includes, in dollars, as published in autumn 2026:
 * https://developers.cloudflare.com/workers/platform/pricing/ and the pages of D1, Queues, Durable Objects and Workers
 * Logs.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../tools/wrangler.ts";
import { queueOperations, type Units } from "./units.ts";

const MILLION = 1_000_000;
const GB = 1_000_000_000;
const D1_GB_MONTH = 0.75;
const logsInvocations = !/^invocation_logs = false$/m.test(
  readFileSync(join(projectRoot, "wrangler.toml"), "utf8"),
);
/** A Durable Object is billed with 128 MB for as long as it is in use. */
const OBJECT_GB = 0.128;

const PRICES = {
  d1RowWritten: 1 / MILLION,
  d1RowRead: 0.001 / MILLION,
  queueOperation: 0.4 / MILLION,
  objectRequest: 0.15 / MILLION,
  gateRowWritten: 1 / MILLION,
  gateRowRead: 0.001 / MILLION,
  objectGbSecond: 12.5 / MILLION,
  invocation: 0.3 / MILLION,
  cpuMs: 0.02 / MILLION,
  logLine: 0.6 / MILLION,
} as const;

/** The lines that Workers Logs stores. With invocation logs, each request to the Worker or an object adds one. */
export function logLinesOf(units: Units): number {
  const { logLines, invocations, gateRequests, intakeRequests } = units;
  return logLines + (logsInvocations ? invocations + gateRequests + intakeRequests : 0);
}

/** @param cpuMs CPU time, which the platform bills by the millisecond */
export function dollarsFor(units: Units, cpuMs: number): number {
  return (
    units.d1RowsWritten * PRICES.d1RowWritten +
    units.d1RowsRead * PRICES.d1RowRead +
    queueOperations(units) * PRICES.queueOperation +
    (units.gateRequests + units.intakeRequests) * PRICES.objectRequest +
    units.gateRowsWritten * PRICES.gateRowWritten +
    units.gateRowsRead * PRICES.gateRowRead +
    ((units.gateMs + units.intakeMs) / 1000) * OBJECT_GB * PRICES.objectGbSecond +
    units.invocations * PRICES.invocation +
    cpuMs * PRICES.cpuMs +
    logLinesOf(units) * PRICES.logLine
  );
}

/** The price of storing these bytes in D1 for a month of 30 days. */
export function storageDollars(bytes: number): number {
  return (bytes / GB) * D1_GB_MONTH;
}
