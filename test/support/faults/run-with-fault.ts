/** Runs a scenario with one of its calls failing, and checks the outcome. */
import { env } from "cloudflare:workers";
import { faultyRuntime, nth } from "../faulty-runtime.ts";
import { heal, planned, platformOf } from "../platform.ts";
import { keyOf, logRequests, type Sent } from "../request-log.ts";
import { newDestination, newGates, newWorld, storedRows, type World } from "../world.ts";
import type { ChosenFault } from "./choose-faults.ts";
import type { Scenario } from "./scenario.ts";

type Row = Awaited<ReturnType<typeof storedRows>>[number];

export type Run = Readonly<{
  /** The calls of the scenario itself. */
  calls: readonly string[];
  /** The call that failed; undefined when it was never made. */
  failedCall: string | undefined;
  /** The faults at the end, in sentences. */
  wrong: readonly string[];
}>;

/**
 * After the scenario everything works again, the operator acts, and every message is delivered three more times.
 * @param chosen the fault; without it, nothing fails
 */
export async function runWithFault(scenario: Scenario, chosen?: ChosenFault): Promise<Run> {
  const world = await newWorld();
  const requestLog = logRequests(world.services);
  const runtime = faultyRuntime({ ...world, services: requestLog.services });
  const destinations = scenario.ends.map((_, i) => `dst_place${i}${"0".repeat(14)}`);
  await newGates(destinations);
  for (const id of destinations) await newDestination({ id });
  const platform = platformOf(world, runtime, destinations);
  const place = { world, platform, runtime, destinations, sent: requestLog.sent };
  await scenario.prepare?.(place);
  const before = runtime.calls.length;
  if (chosen) runtime.failNext(nth(chosen.nth, chosen.call), chosen.fault);
  await scenario.run(place);
  runtime.stopFailing();
  const calls = runtime.calls.slice(before);
  await heal(platform, async () => scenario.operator?.(place));
  const rows = await storedRows();
  const wrong = [
    ...(await endFaults(scenario, destinations, rows)),
    ...rows.flatMap((row) => countFaults(row, sentTo(requestLog.sent, row), runtime.failedCall(), chosen)),
    ...requestLog.afterEnd
      .filter((key) => !rows.some((row) => isErased(row) && keyOf(row) === key))
      .map((key) => `${key} was sent after it had ended`),
    ...(isHoldLost(runtime.failedCall(), chosen)
      ? []
      : requestLog.early.map((what) => `${what} earlier than asked`)),
    ...crowdedReceivers(world),
    ...runtime.breaches,
    ...platform.dropped.map((key) => `${key} was acknowledged before its outcome was recorded`),
    ...(await jobsLeft()),
    ...((await scenario.wrong?.(place)) ?? []),
  ];
  return { calls, failedCall: runtime.failedCall(), wrong };
}

/** The sender does not know a Retry-After whose answer is lost, or dies with its invocation. */
function isHoldLost(failedCall?: string, chosen?: ChosenFault): boolean {
  return failedCall !== undefined && (chosen?.fault === "crash" || failedCall.includes(": fetch"));
}

/** Scenarios leave the limit at its default or lower it. */
const MOST_IN_FLIGHT = 10;

function crowdedReceivers({ receiver }: World): string[] {
  const urls = [...new Set(receiver.calls.map(({ url }) => url))];
  return urls
    .filter((url) => receiver.mostOpen(url) > MOST_IN_FLIGHT)
    .map((url) => `${url} had ${receiver.mostOpen(url)} requests in flight`);
}

async function endFaults(
  scenario: Scenario,
  destinations: readonly string[],
  rows: readonly Row[],
): Promise<string[]> {
  const found = new Map(rows.map((row) => [keyOf(row), row]));
  return (await planned()).flatMap((message) => {
    const row = found.get(keyOf(message));
    const allowed = scenario.ends[destinations.indexOf(message.destinationId)] ?? [];
    if (row && allowed.includes(row.state)) return [];
    return `${keyOf(message)} is ${row?.state ?? "lost"} (${row?.reason}), not ${allowed.join(" or ")}`;
  });
}

/** An erasure does not wait for deliveries that are about to be sent: one uncounted attempt may follow it. */
function isErased({ reason }: Row): boolean {
  return reason === "erased";
}

async function jobsLeft(): Promise<string[]> {
  const { results } = await env.DB.prepare(
    `SELECT id, state FROM replays WHERE state NOT IN ('completed', 'cancelled')
     UNION ALL SELECT id, state FROM erasures WHERE state = 'running'`,
  ).all<{ id: string; state: string }>();
  return results.map(({ id, state }) => `${id} is ${state}`);
}

/** Only a crash or a lost answer may leave an attempt uncounted, or cause a success to be repeated. */
function countFaults(row: Row, sent: readonly Sent[], failedCall?: string, chosen?: ChosenFault): string[] {
  const key = keyOf(row);
  // A new generation resets the count of attempts, not the log.
  const counted = row.log.length;
  const died = failedCall !== undefined && chosen?.fault === "crash";
  const unsent = row.log.filter(({ error }) => error !== undefined).length;
  const ofFetch = failedCall?.includes(": fetch");
  const answerLost = ofFetch && chosen?.fault === "after";
  const made = sent.length + (ofFetch && chosen?.fault === "before" ? unsent : 0);
  const successes = sent.filter(({ status }) => status === 204).length;
  return [
    counted > made && `${key} counts ${counted} attempts, and ${made} were made`,
    counted < made - (died || isErased(row) ? 1 : 0) && `${key} counts ${counted} of ${made} attempts`,
    row.generation === 0 && row.attempts !== counted && `${key} says ${row.attempts} and logs ${counted}`,
    row.state === "delivered" &&
      successes === 0 &&
      `${key} is delivered, and was never answered with success`,
    successes > (died || answerLost ? 2 : 1) && `${key} was delivered ${successes} times`,
    new Set(sent.map(({ body }) => body)).size > 1 && `${key} was sent with different bodies`,
  ].filter((line) => line !== false);
}

function sentTo(sent: readonly Sent[], row: Row): Sent[] {
  return sent.filter(({ key }) => key === keyOf(row));
}
