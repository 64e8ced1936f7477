/**
 * `npm run bench:isolation [-- rounds --save]`: how does one destination in trouble affect a hundred healthy ones?
 *
 * Compares Breakwater with the do-it-yourself stack of BullMQ and Redis. A round has a phase in which the one
 * destination is healthy, and a phase for each trouble; each round begins with another contender and another phase.
 * Ratios are taken within a round, because the machine's load differs less between phases that follow each other.
 */

import { phasedBreakwater } from "./isolation/breakwater.ts";
import { phasedBullmq } from "./isolation/bullmq.ts";
import { openCustomers } from "./isolation/customers.ts";
import { customersFor, customerWith, type Fault, none, troubles } from "./isolation/faults.ts";
import { type Quantiles, quantilesOf } from "./isolation/figures.ts";
import { phase } from "./isolation/phase.ts";
import type { PhasedContender, Setup } from "./isolation/phased-contender.ts";
import { newPost } from "./isolation/post-events.ts";
import { type Round, report, resultsOf } from "./isolation/report.ts";
import { benchArgs, save } from "./results.ts";
import { inTurn } from "./rounds.ts";

const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 3);

type Entrant = Readonly<{ phased: PhasedContender; rounds: Round[] }>;

async function main(): Promise<void> {
  const setup = { customers: await openCustomers(customersFor(ROUNDS)), post: newPost() };
  const entrants = await enterAll(setup);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      for (const { phased, rounds } of inTurn(entrants, round)) {
        rounds.push(await measure(setup, phased, round));
      }
    }
    const series = entrants.map(({ phased: { contender }, rounds }) => ({ contender, rounds }));
    console.log(`\n${report(series)}`);
    if (args.save) save("isolation", resultsOf(series));
  } finally {
    await Promise.allSettled(entrants.map(({ phased }) => phased.stop()));
  }
}

async function enterAll(setup: Setup): Promise<Entrant[]> {
  const ours = { phased: await phasedBreakwater(setup), rounds: [] };
  const theirs = phasedBullmq(setup);
  const missing = theirs.contender.missing();
  if (missing) console.log(`Without ${theirs.contender.name}: ${missing}.`);
  return missing ? [ours] : [ours, { phased: theirs, rounds: [] }];
}

/** Plays one round of one contender: a phase for each trouble, and one without. */
async function measure(setup: Setup, phased: PhasedContender, round: number): Promise<Round> {
  const figures = new Map<Fault, Quantiles>();
  for (const trouble of inTurn([none, ...troubles], round)) {
    const measured = await measurePhase(setup, phased, trouble, round);
    figures.set(trouble, measured);
    const { p50, p99 } = measured;
    const times = `p50 ${p50.value.toFixed(0)} ms, p99 ${p99.value.toFixed(0)} ms`;
    console.log(
      `round ${round + 1} of ${ROUNDS} · ${phased.contender.name} · one destination ${trouble.name} · ${times}`,
    );
  }
  return figures;
}

async function measurePhase(
  { customers, post }: Setup,
  { ready }: PhasedContender,
  trouble: Fault,
  round: number,
): Promise<Quantiles> {
  const customer = customerWith(trouble, round);
  // The backlog exists before the phase, so its customer is slow from then on: otherwise it would work off the backlog
  // too early.
  if (trouble.waiting > 0) customers.behave(customer, trouble.behaviour);
  const { running, end } = await ready(trouble, round);
  customers.behave(customer, trouble.behaviour);
  try {
    return quantilesOf(await phase(running, customers, post, { customer, perSecond: trouble.perSecond }));
  } finally {
    await end();
    customers.behave(customer, "well");
  }
}

await main();
process.exit(0);
