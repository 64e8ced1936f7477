/** A story, told with one of its calls failing; and whether all is well at its end. */
import { env } from "cloudflare:workers";
import { heal, planned, platformOf } from "./platform.ts";
import type { Story } from "./stories/story.ts";
import type { Strike } from "./strikes.ts";
import { nth, wireOf } from "./wire.ts";
import { keyOf, keyOfRow, type Sent, witnessOf } from "./witness.ts";
import { newDestination, newGates, newWorld, storedRows, type World } from "./world.ts";

type Row = Awaited<ReturnType<typeof storedRows>>[number];

export type Told = Readonly<{
  /** What the story itself called. */
  calls: readonly string[];
  /** The call that failed; undefined when it was never made. */
  struck: string | undefined;
  /** What is wrong at the end, in sentences. */
  wrong: readonly string[];
}>;

/**
 * After the story everything works again, a person does what is his, and every message that was ever sent
 * comes three times more.
 * @param strike nothing fails without
 */
export async function telling(story: Story, strike?: Strike): Promise<Told> {
  const world = await newWorld();
  const witness = witnessOf(world.services);
  const wire = wireOf({ ...world, services: witness.services });
  const destinations = story.ends.map((_, i) => `dst_place${i}`);
  await newGates(destinations);
  for (const id of destinations) await newDestination({ id });
  const platform = platformOf(world, wire, destinations);
  if (strike) wire.arm(nth(strike.nth, strike.call), strike.fault);
  const place = { world, platform, wire, destinations };
  await story.tell(place);
  wire.mend();
  const calls = [...wire.calls];
  await heal(platform, async () => story.person?.(place));
  const rows = await storedRows();
  const wrong = [
    ...(await endFaults(story, destinations, rows)),
    ...rows.flatMap((row) => countFaults(row, sentTo(witness.sent, row), wire.struck(), strike)),
    ...witness.afterEnd.map((key) => `${key} was sent after it had ended`),
    ...(isUnheard(wire.struck(), strike) ? [] : witness.early.map((what) => `${what} earlier than asked`)),
    ...crowdedReceivers(world),
    ...wire.breaches,
    ...platform.dropped.map((key) => `${key} was let go before its outcome was on record`),
    ...(await replaysLeft()),
  ];
  return { calls, struck: wire.struck(), wrong };
}

/** What a receiver asks for in an answer that is lost, or that dies with its invocation, nobody has heard. */
function isUnheard(struck?: string, strike?: Strike): boolean {
  return struck !== undefined && (strike?.fault === "crash" || struck.includes(": fetch"));
}

/** Stories leave the limit at what it is by default. */
const MOST_IN_FLIGHT = 10;

function crowdedReceivers({ receiver }: World): string[] {
  const urls = [...new Set(receiver.calls.map(({ url }) => url))];
  return urls
    .filter((url) => receiver.mostOpen(url) > MOST_IN_FLIGHT)
    .map((url) => `${url} had ${receiver.mostOpen(url)} requests in flight`);
}

async function endFaults(
  story: Story,
  destinations: readonly string[],
  rows: readonly Row[],
): Promise<string[]> {
  const found = new Map(rows.map((row) => [keyOfRow(row), row]));
  return (await planned()).flatMap((message) => {
    const row = found.get(keyOf(message));
    const allowed = story.ends[destinations.indexOf(message.destination)] ?? [];
    if (row && allowed.includes(row.state)) return [];
    return `${keyOf(message)} is ${row?.state ?? "lost"} (${row?.reason}), not ${allowed.join(" or ")}`;
  });
}

async function replaysLeft(): Promise<string[]> {
  const { results } = await env.DB.prepare(
    "SELECT id, state FROM replays WHERE state NOT IN ('completed', 'cancelled')",
  ).all<{ id: string; state: string }>();
  return results.map(({ id, state }) => `${id} is ${state}`);
}

/** Only a crash or a lost answer may leave an attempt uncounted, or make a success be repeated. */
function countFaults(row: Row, sent: readonly Sent[], struck?: string, strike?: Strike): string[] {
  const key = keyOfRow(row);
  // The log outlives a replay, which begins to count anew.
  const counted = row.log.length;
  const died = struck !== undefined && strike?.fault === "crash";
  const unsent = row.log.filter(({ error }) => error !== undefined).length;
  const ofFetch = struck?.includes(": fetch");
  const answerLost = ofFetch && strike?.fault === "after";
  const made = sent.length + (ofFetch && strike?.fault === "before" ? unsent : 0);
  const taken = sent.filter(({ status }) => status === 204).length;
  return [
    counted > made && `${key} counts ${counted} attempts, and ${made} were made`,
    counted < made - (died ? 1 : 0) && `${key} counts ${counted} of ${made} attempts`,
    row.replay === null && row.attempts !== counted && `${key} says ${row.attempts} and tells of ${counted}`,
    row.state === "delivered" && taken === 0 && `${key} is said to be delivered`,
    taken > (died || answerLost ? 2 : 1) && `${key} was delivered ${taken} times`,
    new Set(sent.map(({ body }) => body)).size > 1 && `${key} was sent with different bodies`,
  ].filter((line) => line !== false);
}

function sentTo(sent: readonly Sent[], row: Row): Sent[] {
  return sent.filter(({ key }) => key === keyOfRow(row));
}
